package network

import (
	"fmt"
	"net/netip"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"go.uber.org/zap"
)

// foreign is a protocol other than Kafka's. Its first four bytes, read as the length of a request,
// are out of bounds.
type foreign struct {
	cause, remedy string
	// answer returns a refusal in the client's own protocol; answer is nil if that protocol has
	// none. head has the client's first bytes, admin is the address of the admin port.
	answer func(head []byte, admin string) []byte
}

// Error names what the client sent and the remedy.
func (f *foreign) Error() string { return f.cause + ": " + f.remedy }

// foreignTo returns the protocol that begins with these four bytes, or nil. wants is the
// security.protocol that fits the listener.
func foreignTo(head []byte, wants string) *foreign {
	if head[0] == 0x16 && head[1] == 3 && head[2] <= 4 { // a handshake record of SSL 3 to TLS 1.3 (RFC 8446, 5.1)
		return &foreign{
			cause:  "the client sent a TLS handshake, and this listener does not use TLS",
			remedy: "set security.protocol=" + wants + " at the client",
			answer: func(_ []byte, _ string) []byte { return []byte{0x15, 3, 1, 0, 2, 2, 40} }, // alert: fatal, handshake_failure
		}
	}
	if head[0] == '*' && head[1] >= '1' && head[1] <= '9' {
		return &foreign{cause: "the client sent a Redis command", remedy: "check the port that it connects to"}
	}
	switch string(head[:4]) {
	case "GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "TRAC", "PRI ":
		return &foreign{
			cause:  "the client sent an HTTP request to a listener of Kafka's protocol",
			remedy: "HTTP is served on the admin port (admin.listen)",
			answer: badRequest,
		}
	case "SSH-":
		return &foreign{cause: "the client sent an SSH greeting", remedy: "check the port that it connects to"}
	case "PROX", "\r\n\r\n":
		return &foreign{
			cause:  "the client sent a PROXY protocol header, which this listener does not support",
			remedy: "turn it off in the load balancer (send-proxy, proxy_protocol)",
		}
	}
	return nil
}

// notHTTP is the reason in the status line of the answer to an HTTP request. chronikctl and
// chronik-bench recognize a broker's listener by it (internal/cli, SpeaksHTTP).
const notHTTP = "This port speaks Kafka's protocol, not HTTP"

// badRequest returns the answer to an HTTP request.
func badRequest(head []byte, admin string) []byte {
	text := notHTTP + "."
	if admin == unnamed {
		text += " HTTP is on the broker's admin port (admin.listen)."
	} else if a, err := netip.ParseAddrPort(admin); err == nil && a.Addr().IsUnspecified() {
		text += fmt.Sprintf(" Health, metrics and the admin API are on port %d of this host.", a.Port())
	} else if admin != "" {
		text += fmt.Sprintf(" Health, metrics and the admin API are at http://%s/.", admin)
	} else {
		text += " The admin port, which speaks HTTP, is off: set admin.listen."
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 400 %s\r\n"+
		"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
		notHTTP, len(text)+1)
	if string(head[:4]) == "HEAD" {
		return answer
	}
	return fmt.Appendf(answer, "%s\n", text)
}

// unnamed is the address of an admin port that the client must not learn.
const unnamed = "-"

// adminAddress returns the address of the HTTP port for a client: only clients of a listener
// without TLS and logins learn it.
func (c *conn) adminAddress() string {
	if admin := c.srv.opts.AdminAddress; admin == "" || c.listener.TLS == nil && !c.listener.SASL {
		return admin
	}
	return unnamed
}

// refuse logs that the client speaks another protocol and answers in that protocol if possible.
// Nothing else is ever written on the connection. The reader calls it.
func (c *conn) refuse(f *foreign) {
	c.srv.limited.log(c, zap.WarnLevel, "closing a connection of another protocol", f)
	if f.answer == nil {
		return
	}
	c.mu.Lock()
	mayWrite := c.queue.n == 0 && c.life.Can(connlife.Take)
	if mayWrite {
		c.on(connlife.Take)
	}
	c.mu.Unlock()
	if !mayWrite {
		return
	}
	err := c.writeOne(f.answer(c.in.unread(), c.adminAddress()))
	c.mu.Lock()
	c.written(answers{}, false, err)
	c.mu.Unlock()
}

// badLength returns the error for a request length that is out of bounds.
func (c *conn) badLength(size int) error {
	if f := foreignTo(c.in.unread(), c.listener.protocol()); f != nil && c.queue.traffic.Requests == 0 {
		return f
	}
	return fmt.Errorf("%w: length %d is not between %d and %d", errBadFrame, size, minFrame, c.srv.opts.MaxFrame)
}
