package cli

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"time"
)

const (
	maxStatusLine = 1 << 10 // bytes
	httpTimeout   = time.Second
)

// notHTTP is the reason in the status line with which a broker's own listener answers an HTTP
// request (HTTP/1.1 400, internal/network): the address is right, the protocol is not.
const notHTTP = "This port speaks Kafka's protocol, not HTTP"

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// SpeaksHTTP reports whether an HTTP server other than a broker's listener answers at HOST:PORT
// within a second. Call it after a Kafka request has failed, to name the mistake in the error: a
// client that connects to an admin port often gets no answer at all, because an HTTP server
// waits for the end of the first line. It returns early if ctx ends.
func SpeaksHTTP(ctx context.Context, dial DialFunc, addr string) bool {
	ctx, stop := context.WithTimeout(ctx, httpTimeout)
	defer stop()
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(0, 1)) })() // in the past: reads and writes fail
	if _, err := io.WriteString(c, "HEAD / HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	status, err := bufio.NewReader(io.LimitReader(c, maxStatusLine)).ReadString('\n')
	return err == nil && strings.HasPrefix(status, "HTTP/") && !strings.Contains(status, notHTTP)
}
