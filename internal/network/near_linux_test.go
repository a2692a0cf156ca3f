package network

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sendBuffer returns the send buffer of a socket, in bytes.
func sendBuffer(t *testing.T, nc net.Conn) (n int) {
	t.Helper()
	raw, err := nc.(syscall.Conn).SyscallConn()
	must(t, err)
	fault := raw.Control(func(fd uintptr) { n, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF) })
	if fault != nil || err != nil {
		t.Fatal(fault, err)
	}
	return n
}

// A near client has a small send buffer while other connections have requests, and a larger one
// when they have none any longer. A socket that has never been changed is left to the kernel.
func TestANearClientSharesTheProcessors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer client.Close()
	nc, err := l.Accept()
	must(t, err)
	defer nc.Close()
	s := &Server{}
	c := &conn{srv: s, sock: socket{nc: nc}}
	at := sendBuffer(t, nc)
	// step: since the last answer, others had some requests, and this connection had 1,000.
	step := func(what string, others int64, passed time.Duration, want func(n int) bool) {
		t.Helper()
		s.arrived.Add(1000 + others)
		c.out.taken += 1000
		c.out.others.at = c.out.others.at.Add(-passed)
		c.shareProcessors()
		if n := sendBuffer(t, nc); !want(n) {
			t.Fatalf("%s: the send buffer has %d bytes, at first %d", what, n, at)
		}
	}
	unchanged := func(n int) bool { return n == at }
	small := func(n int) bool { return n == 2*nearBuffer }
	c.shareProcessors() // the first answer: nothing is known of the others
	step("alone", 0, othersEvery, unchanged)
	step("heartbeats of others", 3, 10*othersEvery, unchanged)
	step("others, too early to count", 100, 0, unchanged)
	// A busy machine may have measured a long round trip until now.
	for end := time.Now().Add(10 * time.Second); sendBuffer(t, nc) == at && time.Now().Before(end); {
		if _, err := nc.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		step("others", 100, othersEvery, func(int) bool { return true })
	}
	step("others", 100, othersEvery, small)
	step("alone again", 0, othersEvery, func(n int) bool { return n > 2*nearBuffer })
	step("others again", 2, othersEvery, small)
}

// A connection is new until its client has read answers; what its socket only holds does not count.
func TestAConnectionIsNewUntilItsClientHasRead(t *testing.T) {
	fresh := make(chan bool, 1)
	f := start(t, func(r *Request) {
		fresh <- r.Holder().New
		r.Respond(body(make([]byte, 100_000)))
	}, nil)
	defer f.end(t)
	c := dial(t, f.tcp(t))
	const asked = 2 + provenBytes/100_000 // fewer than a socket holds
	for i := range int32(asked) {
		c.send(t, frame(keyMetadata, 3, i, nil))
		if !<-fresh {
			t.Fatalf("after %d answers of which its client has read none, a connection is not new", i)
		}
	}
	for i := range int32(asked) {
		c.want(t, i)
	}
	c.send(t, frame(keyMetadata, 3, asked, nil))
	if <-fresh {
		t.Error("a connection is new whose client has read all answers")
	}
	c.want(t, asked)
}
