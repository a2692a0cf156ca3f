package network

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
)

// The benchmark compares the server with a bare echo: 128 connections, each with one request of 350
// bytes in flight and an answer of 60 bytes. "sync" answers within Handle, "async" from another
// goroutine in bursts, as a disk does. ns/op is the time of one request; ratio is the server's
// throughput divided by the echo's in the same run.
const (
	benchConns    = 128
	benchRequest  = 350
	benchResponse = 60
)

func BenchmarkAgainstEcho(b *testing.B) {
	for _, mode := range []string{"sync", "async"} {
		b.Run(mode, func(b *testing.B) {
			echo := listen(b)
			go echoServer(echo)
			defer echo.Close()
			h := &benchHandler{}
			if mode == "async" {
				h.late = make(chan *Request, benchConns)
				go h.answerBursts()
				defer close(h.late)
			}
			srv, addr := serve(b, Options{Handler: h, Table: produceTable(b)})
			defer srv.Close()
			echoes, ours := dialAll(b, echo.Addr().String()), dialAll(b, addr)
			defer closeAll(echoes)
			defer closeAll(ours)
			alternate(b, echoes, ours, "echo/s", "ours/s")
		})
	}
}

// alternate runs closed loops on two sets of connections alternately, and reports their rates and
// ratio. Only the time of the second counts.
func alternate(b *testing.B, first, second []net.Conn, ofFirst, ofSecond string) {
	var t1, t2 time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; {
		n := min(b.N-done, 20_000)
		b.StopTimer()
		t1 += closedLoop(b, first, n)
		b.StartTimer()
		t2 += closedLoop(b, second, n)
		done += n
	}
	b.ReportMetric(float64(t1)/float64(t2), "ratio")
	b.ReportMetric(float64(b.N)/t1.Seconds(), ofFirst)
	b.ReportMetric(float64(b.N)/t2.Seconds(), ofSecond)
}

// BenchmarkPipelined is the cost of requests that arrive together, without that of the system
// calls: a client sends batches of requests and reads the answers of a batch together.
func BenchmarkPipelined(b *testing.B) {
	const batch = 100
	srv, addr := serve(b, Options{Handler: &benchHandler{}, Table: produceTable(b)})
	defer srv.Close()
	c := dial(b, addr)
	defer c.Close()
	requests := bytes.Repeat(produceFrame(benchRequest), batch)
	answers := make([]byte, batch*benchResponse)
	for done := 0; done < b.N; done += batch {
		if _, err := c.Write(requests); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, answers); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFrames sends frames one after the other on one connection, as a producer that
// fills its batches does.
func BenchmarkFrames(b *testing.B) {
	for _, size := range []int{16 << 10, 100 << 10, 1 << 20, 3 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			srv, addr := serve(b, Options{Handler: &benchHandler{}, Table: produceTable(b)})
			defer srv.Close()
			c := dial(b, addr)
			defer c.Close()
			f := produceFrame(size)
			answer := make([]byte, benchResponse)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := c.Write(f); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchHandler answers every request with the same bytes.
type benchHandler struct{ late chan *Request }

type benchBody struct{}

func (benchBody) Key() int16                 { return 0 }
func (benchBody) GetVersion() int16          { return 9 }
func (benchBody) IsFlexible() bool           { return true }
func (benchBody) AppendTo(dst []byte) []byte { return append(dst, make([]byte, benchResponse-9)...) }

func (h *benchHandler) Handle(r *Request) {
	if h.late != nil {
		h.late <- r
		return
	}
	r.Respond(benchBody{})
}

func (h *benchHandler) answerBursts() {
	for r := range h.late {
		r.Respond(benchBody{})
	}
}

func produceTable(t testing.TB) *protocol.Table {
	t.Helper()
	table, err := protocol.NewTable(kmsg.RequestForKey, protocol.API{Key: protocol.KeyProduce, Min: 3, Max: 13, ListZero: true},
		protocol.API{Key: 3, Max: 13}, protocol.API{Key: keyEndTxn, Max: 5, Quick: true},
		protocol.API{Key: protocol.KeyApiVersions, Max: 4},
		protocol.API{Key: protocol.KeySASLHandshake, Max: 1}, protocol.API{Key: protocol.KeySASLAuthenticate, Max: 2})
	must(t, err)
	return table
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return ln
}

func serve(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	srv, err := New(o)
	must(t, err)
	ln := listen(t)
	must(t, srv.Serve(&Listener{Name: "test"}, ln))
	return srv, ln.Addr().String()
}

func echoServer(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 4096)
			for {
				if _, err := io.ReadAtLeast(c, buf[:benchRequest], benchRequest); err != nil {
					return
				}
				if _, err := c.Write(buf[:benchResponse]); err != nil {
					return
				}
			}
		}()
	}
}

func dialAll(t testing.TB, addr string) []net.Conn {
	t.Helper()
	var conns []net.Conn
	for range benchConns {
		c, err := net.Dial("tcp", addr)
		must(t, err)
		conns = append(conns, c)
	}
	return conns
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// closedLoop sends n requests in all, one at a time on each connection.
func closedLoop(t testing.TB, conns []net.Conn, n int) time.Duration {
	frame := produceFrame(benchRequest)
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	start := time.Now()
	for _, c := range conns {
		wg.Go(func() {
			in := make([]byte, benchResponse)
			for left.Add(-1) >= 0 {
				if _, err := c.Write(frame); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(c, in); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// produceFrame returns a Produce frame, version 9, of size bytes including the length.
func produceFrame(size int) []byte {
	f := make([]byte, size)
	binary.BigEndian.PutUint32(f, uint32(size-4))
	binary.BigEndian.PutUint16(f[6:], 9)
	return f
}
