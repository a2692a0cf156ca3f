package chronikd

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/exit"
)

// The first signal drains, further signals within two seconds mean the same, and a later one ends
// the process with an exit code of its own.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name  string
		after []time.Duration // of signals, since the first
		exits bool
	}{
		{"one", nil, false},
		{"two at once", []time.Duration{0}, false},
		{"many within two seconds", []time.Duration{time.Millisecond, time.Second, 1999 * time.Millisecond}, false},
		{"a second one later", []time.Duration{2 * time.Second}, true},
		{"early ones and a later one", []time.Duration{time.Millisecond, time.Second, 10 * time.Second}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := zapobserver.New(zapcore.InfoLevel)
				ch, codes := make(chan os.Signal, 1), make(chan int, 1)
				s := &signals{ch: ch, exit: func(code int) { codes <- code }}
				s.log.Store(zap.New(core))
				ctx, end := s.watch(context.Background())
				defer end()
				ch <- syscall.SIGTERM
				<-ctx.Done()
				if n := logged.FilterMessageSnippet("another signal, 2s or more from now, ends the process at once").Len(); n != 1 {
					t.Errorf("the first signal has %d log lines about the effect of a second one", n)
				}
				first := time.Now()
				for _, after := range c.after {
					time.Sleep(after - time.Since(first))
					ch <- syscall.SIGINT
					synctest.Wait()
				}
				select {
				case code := <-codes:
					if !c.exits || code != exit.Cut {
						t.Errorf("ended with %d", code)
					}
				default:
					if c.exits {
						t.Error("the process continues")
					}
				}
				if n := logged.FilterMessageSnippet("ending at once").Len(); n > 0 != c.exits {
					t.Errorf("%d log lines about an immediate end", n)
				}
			})
		})
	}
}

// SIGHUP asks for a reload if there is something to reload, also while the broker drains, and ends
// nothing then.
func TestHangupReloads(t *testing.T) {
	ch := make(chan os.Signal, 1)
	s := &signals{ch: ch, exit: func(int) { t.Error("ended") }}
	reload := make(chan struct{}, 1)
	s.reload.Store(&reload)
	ctx, end := s.watch(context.Background())
	defer end()
	for range 3 {
		ch <- syscall.SIGHUP
		<-reload
	}
	if ctx.Err() != nil {
		t.Fatal("SIGHUP ended the broker")
	}
	ch <- syscall.SIGTERM
	<-ctx.Done()
	ch <- syscall.SIGHUP
	<-reload
}
