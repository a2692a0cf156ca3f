package network

import (
	"crypto/tls"
	"testing"
)

// OnClose calls for a client of TLS too, although no goroutine reads its connection.
func TestOnCloseWithTLS(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	defer f.end(t)
	c := dialTLS(t, f.secured(t, tls.NoClientCert, nil), nil)
	c.send(t, frame(keyMetadata, 3, 1, nil), frame(keyMetadata, 3, 2, nil)) // the second one makes the reader wait
	r := p.next()
	gone := make(chan struct{})
	r.OnClose(func() { close(gone) })
	c.Close()
	<-gone
	echo(r)
	echo(p.next())
}
