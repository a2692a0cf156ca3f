package network

import (
	"crypto/tls"
	"net"
	"testing"
	"time"
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
		if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
			b.Fatal(err)
		}
		sealed = append(sealed, c.Conn)
	}
	defer closeAll(sealed)
	var tPlain, tSealed time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; {
		n := min(b.N-done, 20_000)
		b.StopTimer()
		tPlain += closedLoop(b, plain, n)
		b.StartTimer()
		tSealed += closedLoop(b, sealed, n)
		done += n
	}
	b.ReportMetric(float64(tPlain)/float64(tSealed), "ratio")
	b.ReportMetric(float64(b.N)/tPlain.Seconds(), "plain/s")
	b.ReportMetric(float64(b.N)/tSealed.Seconds(), "tls/s")
}
