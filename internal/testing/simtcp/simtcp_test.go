package simtcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	serverIP = "10.0.0.1"
	clientIP = "10.0.0.2"
	address  = serverIP + ":9092"
)

// pair is a connection and its hosts.
type pair struct {
	net            *Net
	server, client *Host
	in, out        net.Conn // at the server and at the client
}

func connect(t *testing.T) *pair {
	t.Helper()
	p := &pair{net: New(1, time.Millisecond)}
	p.server, p.client = p.net.Host(serverIP), p.net.Host(clientIP)
	l, err := p.server.Listen(t.Context(), "tcp", address)
	must.OK(t, err)
	if p.out, err = p.client.DialContext(t.Context(), "tcp", address); err != nil {
		t.Fatal(err)
	}
	if p.in, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return p
}

// bubble runs a test under virtual time.
func bubble(t *testing.T, f func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, connect(t)) })
}

func TestBytesArriveInOrderAndLate(t *testing.T) {
	bubble(t, func(t *testing.T, p *pair) {
		sent := bytes.Repeat([]byte("0123456789"), 100_000) // several windows
		go func() {
			for rest := sent; len(rest) > 0; rest = rest[min(997, len(rest)):] {
				if _, err := p.out.Write(rest[:min(997, len(rest))]); err != nil {
					t.Error(err)
				}
			}
			_ = p.out.Close()
		}()
		began := time.Now()
		got, err := io.ReadAll(p.in)
		if err != nil || !bytes.Equal(got, sent) || time.Since(began) == 0 {
			t.Errorf("%d of %d bytes after %v, %v", len(got), len(sent), time.Since(began), err)
		}
	})
}

// A cut holds up one direction until it is restored. Nothing is lost.
func TestACutDirection(t *testing.T) {
	bubble(t, func(t *testing.T, p *pair) {
		p.net.Cut(clientIP, serverIP, true)
		for _, w := range []net.Conn{p.in, p.out} {
			if _, err := w.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			for _, c := range []net.Conn{p.in, p.out} {
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
			}
		}
		if _, err := p.out.Read(make([]byte, 1)); err != nil {
			t.Errorf("the other direction: %v", err)
		}
		if _, err := p.in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the direction that is cut: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.client.DialContext(ctx, "tcp", address); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a dial: %v", err)
		}
		p.net.Heal()
		_ = p.in.SetReadDeadline(time.Time{})
		if _, err := p.in.Read(make([]byte, 1)); err != nil {
			t.Errorf("restored: %v", err)
		}
	})
}

// What a process sent before it was killed arrives; then its peers see the end.
func TestAKilledProcess(t *testing.T) {
	bubble(t, func(t *testing.T, p *pair) {
		if _, err := p.in.Write([]byte("last")); err != nil {
			t.Error(err)
		}
		p.server.Kill()
		if got, err := io.ReadAll(p.out); string(got) != "last" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := p.in.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the dead process writes: %v", err)
		}
		if _, err := p.client.DialContext(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial: %v", err)
		}
	})
}

// The peers of a machine without power see nothing, until it is back.
func TestAMachineWithoutPower(t *testing.T) {
	bubble(t, func(t *testing.T, p *pair) {
		p.server.PowerOff()
		_ = p.out.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := p.out.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read: %v", err)
		}
		if _, err := p.out.Write([]byte("x")); err != nil {
			t.Errorf("a write: %v", err)
		}
		p.net.Host(serverIP)
		if _, err := p.out.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write when the machine is back: %v", err)
		}
		if _, err := p.client.DialContext(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial: %v", err)
		}
	})
}

func TestCloseAndReset(t *testing.T) {
	for _, reset := range []bool{false, true} {
		bubble(t, func(t *testing.T, p *pair) {
			if reset {
				_ = p.in.(*conn).SetLinger(0)
			}
			if err := p.in.Close(); err != nil {
				t.Error(err)
			}
			_, err := p.out.Read(make([]byte, 1))
			if want := map[bool]error{false: io.EOF, true: syscall.ECONNRESET}[reset]; !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			if err := p.in.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed again: %v", err)
			}
		})
	}
}

// A frozen host sends and receives nothing, and has lost nothing when it continues.
func TestAFrozenHost(t *testing.T) {
	bubble(t, func(t *testing.T, p *pair) {
		p.net.Freeze(serverIP, true)
		if _, err := p.out.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Minute, func() { p.net.Freeze(serverIP, false) })
		began := time.Now()
		if _, err := p.in.Read(make([]byte, 1)); err != nil || time.Since(began) < time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
