// Package names answers lookups of host names in tests, so that no test depends on the name servers
// of the machine. It knows nothing of brokers.
package names

import (
	"context"
	"net"
	"testing"
)

// None makes every lookup of this process that needs a name server fail with "no such host", until
// the test ends. Names in /etc/hosts and addresses resolve as before. The test must not run in
// parallel with others that look names up.
func None(tb testing.TB) {
	tb.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		deny(server)
	}()
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	tb.Cleanup(func() {
		net.DefaultResolver = was
		_ = server.Close()
		<-done
	})
}

// deny answers each query with the query itself, marked as a response with the code NXDOMAIN (RFC
// 1035, 4.1.1), until the socket is closed.
func deny(server net.PacketConn) {
	b := make([]byte, 1500)
	for {
		n, from, err := server.ReadFrom(b)
		if err != nil {
			return
		}
		if n < 12 {
			continue // no header
		}
		b[2] |= 0x80       // QR
		b[3] = 0x80 | 0x03 // RA, and the code
		_, _ = server.WriteTo(b[:n], from)
	}
}
