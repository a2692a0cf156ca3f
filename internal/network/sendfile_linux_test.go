package network

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/protocol"
)

// memFile is a File whose bytes are in memory. It sends like the kernel, unless send is set.
type memFile struct {
	data []byte
	send func(socket, off, n int) (int, error)
	read error
}

func (f *memFile) Size() int { return len(f.data) }

func (f *memFile) SendTo(socket, off, n int) (int, error) {
	if f.send != nil {
		return f.send(socket, off, n)
	}
	return f.write(socket, off, n)
}

func (f *memFile) write(socket, off, n int) (int, error) {
	sent, err := unix.Write(socket, f.data[off:off+n])
	return max(sent, 0), err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if f.read != nil {
		return 0, f.read
	}
	return bytes.NewReader(f.data).ReadAt(p, off)
}

// pattern returns n bytes that differ from those of another seed, and at other positions.
func pattern(seed, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(seed*31 + i + i>>8 + i>>16)
	}
	return p
}

// layout is an answer: sizes of parts, and of files with the number of parts before each.
type layout struct {
	parts []int
	files [][2]int
}

// build returns the answer, and the body that the client must receive.
func (l layout) build(seed int) (parts [][]byte, files []FileBytes, want []byte) {
	at := 0
	for i := 0; i <= len(l.parts); i++ {
		for ; at < len(l.files) && l.files[at][0] == i; at++ {
			data := pattern(seed+100+at, l.files[at][1])
			files = append(files, FileBytes{Before: i, File: &memFile{data: data}})
			want = append(want, data...)
		}
		if i < len(l.parts) {
			p := pattern(seed+i, l.parts[i])
			parts, want = append(parts, p), append(want, p...)
		}
	}
	return parts, files, want
}

// Answers with files, also with small ones, arrive in order between others, whatever writes them:
// the flusher of a poller, or a writer whose client reads slowly.
func TestFilesArriveInTheirPlaces(t *testing.T) {
	layouts := []layout{
		{parts: []int{10}},
		{parts: []int{5}, files: [][2]int{{1, 20}}},
		{parts: []int{5, 0, 7}, files: [][2]int{{0, 3}, {1, 70_000}, {2, 1}, {2, 9000}, {3, 40}}},
		{},
		{files: [][2]int{{0, 600_000}}},
		{parts: []int{3000, 0, 5000, 9000}, files: [][2]int{{4, 4000}}},
		{parts: []int{12}},
		{parts: []int{1, 1}, files: [][2]int{{1, 8}}},
		{parts: []int{11}},
	}
	for _, small := range []bool{false, true} {
		for _, forwards := range []bool{true, false} {
			t.Run(fmt.Sprintf("small buffers %t, answered in order %t", small, forwards), func(t *testing.T) {
				q := newParked()
				f := startPolled(t, q.handle, nil)
				defer f.end(t)
				var p *polled
				if small {
					f.narrow(t)
					p = f.adopt(t, dialSmall(t, f.addr))
				} else {
					p = f.dial(t)
				}
				defer p.Close()
				var requests []*Request
				for i := range layouts {
					p.send(t, frame(protocol.KeyProduce, 3, int32(i), nil))
					requests = append(requests, q.next())
				}
				wants, released := make([][]byte, len(layouts)), make([]atomic.Int64, len(layouts))
				for k := range layouts {
					i := k
					if !forwards {
						i = len(layouts) - 1 - k
					}
					parts, files, want := layouts[i].build(i)
					wants[i] = want
					requests[i].RespondFiles(parts, files, func() { released[i].Add(1) })
				}
				for i := range layouts {
					if got := p.want(t, int32(i)); !bytes.Equal(got, wants[i]) {
						t.Fatalf("answer %d: %d bytes instead of %d, or others", i, len(got), len(wants[i]))
					}
				}
				for i := range released {
					await(t, "the release", func() bool { return released[i].Load() > 0 })
				}
				p.Close()
				f.awaitNoConnection(t)
				for i := range released {
					if n := released[i].Load(); n != 1 {
						t.Errorf("answer %d was released %d times", i, n)
					}
				}
			})
		}
	}
}

// A connection that is no socket gets the bytes through memory.
func TestFilesOfAConnectionInMemory(t *testing.T) {
	parts, files, want := layout{parts: []int{5, 6}, files: [][2]int{{1, 2*fileStep + 5}}}.build(1)
	f := start(t, func(r *Request) { r.RespondFiles(parts, files, nil) }, nil)
	defer f.end(t)
	c := f.pipe.dial()
	defer c.Close()
	c.sendAsync(frame(protocol.KeyProduce, 3, 1, nil))
	if got := c.want(t, 1); !bytes.Equal(got, want) {
		t.Errorf("%d bytes instead of %d, or others", len(got), len(want))
	}
}

// The system would send a file in plain text. So an answer on a connection with TLS has none, and
// would be copied and encrypted if it had.
func TestNoFilesOverTLS(t *testing.T) {
	parts, files, want := layout{parts: []int{5, 6}, files: [][2]int{{1, fileStep + 5}}}.build(1)
	var sends atomic.Bool
	f := start(t, func(r *Request) {
		sends.Store(r.SendsFiles())
		r.RespondFiles(parts, files, nil)
	}, nil)
	defer f.end(t)
	for _, c := range []*client{dialTLS(t, f.secured(t, tls.NoClientCert, nil), nil), dial(t, f.tcp(t))} {
		c.send(t, frame(protocol.KeyProduce, 3, 1, nil))
		if got := c.want(t, 1); !bytes.Equal(got, want) {
			t.Errorf("%d bytes instead of %d, or others", len(got), len(want))
		}
		if _, plain := c.Conn.(*net.TCPConn); sends.Load() != plain {
			t.Errorf("files may be sent: %t; without TLS: %t", sends.Load(), plain)
		}
		c.Close()
	}
}

// The system does not send from some position on: the rest is copied from there.
func TestFileThatTheSystemStopsSending(t *testing.T) {
	for _, at := range []int{0, 1, 1000, fileStep, writeChunk + 7} {
		m := &memFile{data: pattern(at, 2*writeChunk+5)}
		m.send = func(socket, off, n int) (int, error) {
			if off >= at {
				return 0, errors.ErrUnsupported
			}
			return m.write(socket, off, min(n, at-off))
		}
		f := startPolled(t, func(r *Request) { r.RespondFiles([][]byte{{1}, {2}}, []FileBytes{{1, m}}, nil) }, nil)
		p := f.dial(t)
		p.send(t, frame(protocol.KeyProduce, 3, 1, nil))
		want := slices.Concat([]byte{1}, m.data, []byte{2})
		if got := p.want(t, 1); !bytes.Equal(got, want) {
			t.Errorf("stopped at %d: %d bytes instead of %d, or others", at, len(got), len(want))
		}
		p.Close()
		f.end(t)
	}
}

// How a connection ends when a file can't be sent, and whether the log blames the file.
func TestFileThatCannotBeSent(t *testing.T) {
	fails := func(err error) func(*memFile) {
		return func(m *memFile) {
			m.send = func(socket, off, n int) (int, error) {
				if off >= 1000 {
					return 0, err
				}
				return m.write(socket, off, min(n, 1000-off))
			}
		}
	}
	for _, c := range []struct {
		name    string
		timeout time.Duration
		file    func(*memFile)
		closed  CloseReason
		logs    string
	}{
		{name: "bad disk", file: fails(syscall.EIO), closed: ClosedError, logs: "input/output error"},
		{name: "short file", file: fails(nil), closed: ClosedError, logs: "unexpected EOF"},
		{name: "bad disk when copying", file: func(m *memFile) { fails(errors.ErrUnsupported)(m); m.read = syscall.EIO },
			closed: ClosedError, logs: "input/output error"},
		{name: "reset", file: fails(syscall.ECONNRESET), closed: ClosedByClient},
		{name: "closed", file: fails(fmt.Errorf("send: %w", syscall.EPIPE)), closed: ClosedByClient},
		{name: "client's machine is gone", file: fails(syscall.EHOSTUNREACH), closed: ClosedByClient},
		{name: "client's network is gone", file: fails(syscall.ENETUNREACH), closed: ClosedByClient},
		{name: "no answer from the client", file: fails(syscall.ETIMEDOUT), closed: ClosedByClient},
		{name: "full socket", timeout: 20 * time.Millisecond, file: fails(syscall.EAGAIN), closed: ClosedSlowReader,
			logs: "client does not read its answers"},
		{name: "some bytes at times", timeout: 20 * time.Millisecond, closed: ClosedSlowReader, file: func(m *memFile) {
			m.send = func(socket, off, _ int) (int, error) {
				time.Sleep(50 * time.Microsecond)
				return m.write(socket, off, 1)
			}
		}, logs: "client does not read its answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, logged := observer.New(zapcore.InfoLevel)
			o := &recorder{}
			var released atomic.Int64
			m := &memFile{data: make([]byte, 8<<20)}
			c.file(m)
			f := startPolled(t, func(r *Request) {
				r.RespondFiles([][]byte{make([]byte, 100)}, []FileBytes{{1, m}}, func() { released.Add(1) })
			}, func(opts *Options) { opts.WriteTimeout, opts.Observer, opts.Log = c.timeout, o, zap.New(core) })
			p := f.dial(t)
			p.send(t, frame(protocol.KeyProduce, 3, 1, nil))
			if _, err := io.Copy(io.Discard, p); isTimeout(err) {
				t.Error("the connection stays open")
			}
			p.Close()
			f.awaitNoConnection(t)
			f.end(t)
			if want := "test closed: " + string(c.closed); !slices.Contains(o.told, want) {
				t.Errorf("told %q, not %q", o.told, want)
			}
			if n := released.Load(); n != 1 {
				t.Errorf("released %d times", n)
			}
			var text []string
			for _, e := range logged.All() {
				text = append(text, fmt.Sprint(e.Message, " ", e.ContextMap()))
			}
			all, blamed := strings.Join(text, "\n"), c.closed == ClosedError
			if !strings.Contains(all, c.logs) || strings.Contains(all, "can't be read") != blamed {
				t.Errorf("logged %q", all)
			}
		})
	}
}

// A client that reads nothing holds an answer's file until a stop closes the connection, or until
// it hangs up, and not longer.
func TestFileOfAClientThatReadsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*testing.T, *pollFixture, *polled)
	}{
		{"close", func(t *testing.T, f *pollFixture, _ *polled) { must(t, f.Close()) }},
		{"reset", func(t *testing.T, _ *pollFixture, p *polled) { p.reset(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			full, released := make(chan struct{}, 1), make(chan struct{})
			m := &memFile{data: make([]byte, 32<<20)}
			m.send = func(socket, off, n int) (int, error) {
				sent, err := m.write(socket, off, n)
				if errors.Is(err, syscall.EAGAIN) {
					select {
					case full <- struct{}{}:
					default:
					}
				}
				return sent, err
			}
			f := startPolled(t, func(r *Request) { r.RespondFiles(nil, []FileBytes{{0, m}}, func() { close(released) }) }, nil)
			p := f.dial(t)
			p.send(t, frame(protocol.KeyProduce, 3, 1, nil))
			<-full
			select {
			case <-released:
				t.Error("released while it is sent")
			default:
			}
			c.end(t, f, p)
			<-released
			p.Close()
			f.awaitNoConnection(t)
			f.end(t)
		})
	}
}
