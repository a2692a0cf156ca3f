package network

import (
	"crypto/tls"
	"net"
	"testing"
)

// BenchmarkTLS compares the closed loops of BenchmarkAgainstEcho, over TLS and in plain text.
func BenchmarkTLS(b *testing.B) {
	f := start(b, (&benchHandler{}).Handle, nil)
	defer f.end(b)
	f.opts.MaxUnauthenticatedPerIP = benchConns // they connect at once
	addr := f.secured(b, tls.NoClientCert, nil)
	plain := dialAll(b, f.tcp(b))
	defer closeAll(plain)
	sealed := make([]net.Conn, 0, benchConns)
	for range benchConns {
		c := dialTLS(b, addr, nil)
		must(b, c.Conn.(*tls.Conn).Handshake())
		sealed = append(sealed, c.Conn)
	}
	defer closeAll(sealed)
	alternate(b, plain, sealed, "plain/s", "tls/s")
}
