package supervise

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// dir is a log directory of which the test says for how long it stalls.
type dir struct {
	stalled time.Duration
	err     error
}

func (d *dir) Stalled() time.Duration { return d.stalled }
func (d *dir) Err() error             { return d.err }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A journal hangs if records wait and nothing is written or synced. The broker hangs if all its
// working journals hang.
func TestABrokerHangsIfEveryJournalHangs(t *testing.T) {
	a, b := &dir{}, &dir{}
	p := newPulse("", []Dir{a, b}, time.Second)
	look := func(hangs bool, why string) {
		t.Helper()
		if err := p.moving(); (err != nil) != hangs {
			t.Errorf("%s: %v", why, err)
		}
	}
	look(false, "no record waits")
	a.stalled = time.Second
	look(false, "the other directory is idle, so it could take records")
	b.stalled = time.Second - 1
	look(false, "the other one stalls for a shorter time")
	b.stalled = time.Hour
	look(true, "both hang")
	a.stalled = 0
	look(false, "one moved")
	a.stalled, b.stalled, b.err = time.Second, 0, errors.New("disk gone")
	look(true, "records wait in the only working directory")
	a.stalled = 0
	look(false, "one works, the failure of the other is known")
	a.err, a.stalled = b.err, time.Hour
	look(false, "a restart does not repair failed disks")
}

// The pulse uses the clients' path to the broker, over one connection.
func TestThePulseUsesTheClientsPath(t *testing.T) {
	cfg, err := resolve.Load(
		config.Input{
			Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: config.Off},
		},
	)
	must.OK(t, err)
	b, err := daemon.Start(
		t.Context(),
		daemon.Options{Config: cfg, FS: vfs.Memory(), Log: zap.NewNop(), Version: "v", JournalFileSize: 1 << 20, JournalBytes: 16 << 20},
	)
	must.OK(t, err)
	p := newPulse(b.Addrs()[0], nil, time.Minute)
	defer p.close()
	for range 3 {
		must.OK(t, p.beat(t.Context()))
	}
	if text := b.Status(); !strings.HasPrefix(text, "serving 0 partitions on 127.0.0.1:") || !strings.HasSuffix(text, ", 1 connections") {
		t.Errorf("status: %s", text)
	}
	_ = p.conn.Close() // as the broker does with an idle connection
	if err := p.beat(t.Context()); err != nil {
		t.Errorf("no new connection was opened: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := p.beat(t.Context()); err == nil {
		t.Error("a stopped broker has a pulse")
	}
}

// A broker that accepts a connection and does not respond hangs; if it closes the connection, it
// has responded.
func TestSilenceIsAHangAndARefusalIsNot(t *testing.T) {
	l := listen(t)
	p := newPulse(l.Addr().String(), nil, time.Minute)
	defer p.close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.beat(ctx); err == nil {
		t.Error("a listener without a server has a pulse")
	}
	p.close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	if err := p.beat(t.Context()); err != nil {
		t.Errorf("a broker with too many connections has no pulse: %v", err)
	}
}
