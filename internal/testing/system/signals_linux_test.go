package system

import (
	"context"
	"errors"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/testing/hostile"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Signals that arrive together count as one: the broker drains.
func TestSimultaneousSignalsDrain(t *testing.T) {
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	must.OK(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		must.OK(t, p.cmd.Process.Signal(sig))
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v\n%s", err, p.logged())
	}
	if log := p.logged(); !strings.Contains(log, `"msg":"stopped"`) ||
		!strings.Contains(log, "another signal, 2s or more from now, ends the process at once") {
		t.Errorf("it has not drained, or has not logged what a second signal does:\n%s", log)
	}
}

// A terminal that closes sends SIGHUP: the broker drains, unless it was started with nohup.
func TestHangupDrains(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here and by child processes")
	}
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	must.OK(t, err)
	if err := p.end(syscall.SIGHUP); err != nil || !strings.Contains(p.logged(), `"msg":"stopped"`) {
		t.Errorf("ended with %v\n%s", err, p.logged())
	}
}

// A drain waits for a client that doesn't read its responses. A signal two seconds after the first
// one ends the process, with its own exit code and log line.
func TestLaterSignalEndsADrain(t *testing.T) {
	t.Parallel() // it waits for seconds
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	must.OK(t, hostile.OpenUnread(t.Context(), p.Addr))
	begin := time.Now()
	ctx, over := context.WithTimeout(t.Context(), startTime)
	defer over()
	for ended := false; !ended; {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && ctx.Err() != nil {
			t.Fatalf("it continues: %v\n%s", err, p.logged())
		}
		select {
		case err := <-p.done:
			p.done <- err
			ended = true
		case <-ctx.Done():
			t.Fatalf("it continues\n%s", p.logged())
		case <-time.After(100 * time.Millisecond): // between two signals
		}
	}
	took := time.Since(begin)
	var end *exec.ExitError
	if err := p.end(syscall.SIGTERM); !errors.As(err, &end) || end.ExitCode() != exit.Cut {
		t.Errorf("ended with %v, after %v\n%s", err, took, p.logged())
	}
	if !strings.Contains(p.logged(), "another signal, ending at once") {
		t.Errorf("no line about it:\n%s", p.logged())
	}
	if took < 2*time.Second {
		t.Errorf("signals within %v ended it", took)
	}
}
