// Package wrongport finds out what is spoken at an address that gave a client of Kafka's
// protocol no answer, so that the error can name the mistake.
//
// chronikctl and chronik-bench ask it when a first request has failed; it knows neither.
package wrongport

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"time"
)

// longestStatus bounds a status line.
const longestStatus = 1 << 10

// httpTime bounds the question whether an address speaks HTTP.
const httpTime = time.Second

// KafkaHere is the reason in the status line with which a broker's own listener answers an
// HTTP request (HTTP/1.1 400): the address is right, HTTP is not.
const KafkaHere = "This port speaks Kafka's protocol, not HTTP"

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// SpeaksHTTP reports whether HTTP is spoken at HOST:PORT, within a second. A client of
// Kafka's protocol that names an admin port often gets no answer at all, because an HTTP
// server waits for the end of the request's first line; so an address that did not answer
// is asked in HTTP before an error is worded. It ends with ctx.
func SpeaksHTTP(ctx context.Context, dial DialFunc, addr string) bool {
	ctx, stop := context.WithTimeout(ctx, httpTime)
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
	status, err := bufio.NewReader(io.LimitReader(c, longestStatus)).ReadString('\n')
	return err == nil && strings.HasPrefix(status, "HTTP/") && !strings.Contains(status, KafkaHere)
}
