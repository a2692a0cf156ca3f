package limits

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// serve starts an echo server in the test and returns its address and the error that it ends with.
func serve(t *testing.T, ctx context.Context, answer []byte) (string, <-chan error) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, answer) }()
	return l.Addr().String(), done
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// The response to a request of any size is the configured one, with the correlation id of the
// request. When the server ends, its connections end.
func TestServeAnswersEachFrame(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	addr, done := serve(t, ctx, answerTo("t"))
	c := dial(t, addr)
	for _, n := range []int{8, 370, firstBuffer, firstBuffer + 1, 1 << 20} {
		req := binary.BigEndian.AppendUint32(nil, uint32(n))
		req = append(req, bytes.Repeat([]byte{7}, n)...)
		binary.BigEndian.PutUint32(req[8:], uint32(n))
		if _, err := c.Write(req); err != nil {
			t.Fatal(err)
		}
		want := answerTo("t")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if binary.BigEndian.PutUint32(want[4:], uint32(n)); !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("an ended server left the connection: %v", err)
	}
}

// A frame longer than any request ends its connection and no other.
func TestServeBoundsFrames(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr, done := serve(t, ctx, answerTo("t"))
	bad, good := dial(t, addr), dial(t, addr)
	if _, err := bad.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("four gigabytes: %v", err)
	}
	if _, err := good.Write([]byte{0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(good, answerTo("t")); err != nil {
		t.Errorf("the other connection: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A connection that was accepted while the server ended is closed.
func TestServerAcceptsNothingAfterItsEnd(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	s := &server{open: map[net.Conn]struct{}{}}
	s.close(l)
	near, far := net.Pipe()
	if s.add(near) {
		t.Error("an ended server took a connection")
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("it is left open: %v", err)
	}
}

// The server of StartServer is another process, which ends with Close and with its context.
func TestStartServer(t *testing.T) {
	for _, canceled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		s, err := StartServer(ctx, "t")
		must.OK(t, err)
		c := dial(t, s.Addr())
		if _, err := c.Write([]byte{0, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
		got := answerTo("t")
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got[4:8], []byte{1, 2, 3, 4}) {
			t.Errorf("%v, %v", got[:8], err)
		}
		if canceled {
			cancel()
		}
		if err := s.Close(); err != nil {
			t.Errorf("canceled %v: %v", canceled, err)
		}
		if _, err := c.Read(got); !errors.Is(err, io.EOF) {
			t.Errorf("canceled %v: the connection of an ended server: %v", canceled, err)
		}
	}
}
