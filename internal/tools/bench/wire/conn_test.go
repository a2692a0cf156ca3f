package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// pair returns a connection whose other end serve handles.
func pair(t *testing.T, serve func(net.Conn)) *Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		serve(c)
	}()
	conn, err := Dial(context.Background(), l.Addr().String(), nil)
	must.OK(t, err)
	t.Cleanup(func() {
		conn.Close()
		l.Close()
		<-done
	})
	return conn
}

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestExchangeOneByOne(t *testing.T) {
	conn := pair(t, func(c net.Conn) {
		buf := make([]byte, 6)
		for {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			if _, err := c.Write(frame("answer " + string(buf))); err != nil {
				return
			}
		}
	})
	for i := range 500 {
		out := []byte{'q', 'u', 'e', 'r', 'y', byte('a' + i%26)}
		must.OK(t, conn.Exchange(out, true))
		if got, ok := conn.Next(); !ok || string(got) != "answer "+string(out) {
			t.Fatalf("answer %q %v", got, ok)
		}
		if got, ok := conn.Next(); ok {
			t.Fatalf("a second answer %q", got)
		}
	}
}

func TestAnswersInPiecesAndTogether(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 3*firstBuffer))
	conn := pair(t, func(c net.Conn) {
		all := append(append(frame("first"), frame(long)...), frame("third")...)
		io.ReadFull(c, make([]byte, 3))
		for _, cut := range []int{1, 3, 5, 12, 2000, len(all)} {
			c.Write(all[:min(cut, len(all))])
			all = all[min(cut, len(all)):]
		}
		io.Copy(io.Discard, c)
	})
	must.OK(t, conn.Exchange([]byte("abc"), true))
	for _, want := range []string{"first", long, "third"} {
		got, ok := conn.Next()
		for !ok {
			must.OK(t, conn.Receive())
			got, ok = conn.Next()
		}
		if string(got) != want {
			t.Fatalf("got %d bytes %.20q, want %.20q", len(got), got, want)
		}
	}
}

func TestALargeWriteIsWhole(t *testing.T) {
	out := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	conn := pair(t, func(c net.Conn) {
		if got := make([]byte, len(out)); func() bool { _, err := io.ReadFull(c, got); return err == nil }() && bytes.Equal(got, out) {
			c.Write(frame("whole"))
		} else {
			c.Write(frame("broken"))
		}
		io.Copy(io.Discard, c)
	})
	must.OK(t, conn.Exchange(out, true))
	if got, _ := conn.Next(); string(got) != "whole" {
		t.Errorf("got %q", got)
	}
}

func TestHalfAnswersAndNonsenseAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer []byte
		want   error
	}{
		"nothing":         {nil, io.ErrUnexpectedEOF},
		"half a length":   {[]byte{0, 0}, io.ErrUnexpectedEOF},
		"half an answer":  {frame("answer")[:7], io.ErrUnexpectedEOF},
		"negative length": {[]byte{0xff, 0xff, 0xff, 0xff}, ErrFrame},
		"too long":        {[]byte{0x7f, 0xff, 0xff, 0xff}, ErrFrame},
		"no correlation":  {[]byte{0, 0, 0, 2, 1, 1}, ErrFrame},
	} {
		t.Run(name, func(t *testing.T) {
			conn := pair(t, func(s net.Conn) {
				io.ReadFull(s, make([]byte, 3))
				s.Write(c.answer)
			})
			if err := conn.Exchange([]byte("abc"), true); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestADeadlineEndsAWait(t *testing.T) {
	conn := pair(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	must.OK(t, conn.SetDeadline(time.Now().Add(20*time.Millisecond)))
	var timeout net.Error
	if err := conn.Exchange([]byte("abc"), true); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v", err)
	}
}

func TestExchangeAllocatesNothing(t *testing.T) {
	conn := pair(t, func(c net.Conn) {
		buf, out := make([]byte, 6), produced(MaxProduce, 0, 1, nil)
		out = append(binary.BigEndian.AppendUint32(nil, uint32(len(out))), out...)
		for {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	})
	out := []byte("abcdef")
	if n := testing.AllocsPerRun(200, func() {
		must.OK(t, conn.Exchange(out, true))
		f, _ := conn.Next()
		if _, err := ReadProduced(f, 9, "t", 3); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
