// Package fakebroker speaks the protocol of a broker whose answers a test makes up: what no broker
// of ours answers, and brokers of other kinds. Cluster answers requests that move replicas and
// logs, for tests that change what it has between two of them. The package does not know what a
// right answer is.
package fakebroker

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Host is that of all fake brokers.
const Host = "127.0.0.1"

// Serve listens on a port until the test ends. Each request gets what answer returns; nil closes
// the connection. Calls of answer are concurrent, one for each connection.
func Serve(t testing.TB, answer func(kmsg.Request) kmsg.Response) (port int32) {
	t.Helper()
	l, err := net.Listen("tcp", Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var conns sync.Map
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, nil)
			all.Go(func() { serve(c, answer) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		all.Wait()
	})
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// serve answers the requests of a connection until it ends.
func serve(c net.Conn, answer func(kmsg.Request) kmsg.Response) {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		p := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(p)), int16(binary.BigEndian.Uint16(p[2:]))
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		body := p[10+max(0, int(int16(binary.BigEndian.Uint16(p[8:])))):] // behind the client id
		if req.IsFlexible() {
			body = body[1:] // no tags
		}
		if req.ReadFrom(body) != nil {
			return
		}
		resp := answer(req)
		if resp == nil {
			return
		}
		resp.SetVersion(version)
		out := append([]byte{0, 0, 0, 0}, p[4:8]...)
		if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
