package main

import (
	"context"
	"errors"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/hostile"
)

// Signals that come together are one: the broker drains.
func TestSignalsThatComeTogetherDrain(t *testing.T) {
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v\n%s", err, p.logged())
	}
	if log := p.logged(); !strings.Contains(log, `"msg":"stopped"`) || !strings.Contains(log, "another signal, 2s or more from now, ends the process at once") {
		t.Errorf("it has not drained, or has not logged what a second signal does:\n%s", log)
	}
}

// A terminal that is closed sends SIGHUP: the broker drains, unless it was started to outlive it.
func TestAHangUpDrains(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("hang-ups are ignored here, and by what is started here")
	}
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.end(syscall.SIGHUP); err != nil || !strings.Contains(p.logged(), `"msg":"stopped"`) {
		t.Errorf("ended with %v\n%s", err, p.logged())
	}
}

// While a drain waits for a client that doesn't read its answers, a signal that comes two seconds after the first ends the
// process, with a code of its own and a line of the log.
func TestALaterSignalEndsADrain(t *testing.T) {
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	if err := hostile.OpenUnread(t.Context(), p.Addr); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	ctx, over := context.WithTimeout(t.Context(), startTime)
	defer over()
	for ended := false; !ended; {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && ctx.Err() != nil {
			t.Fatalf("it goes on: %v\n%s", err, p.logged())
		}
		select {
		case err := <-p.done:
			p.done <- err
			ended = true
		case <-ctx.Done():
			t.Fatalf("it goes on\n%s", p.logged())
		case <-time.After(100 * time.Millisecond): // between two signals
		}
	}
	took := time.Since(begin)
	var exit *exec.ExitError
	if err := p.end(syscall.SIGTERM); !errors.As(err, &exit) || exit.ExitCode() != daemon.ExitCut {
		t.Errorf("ended with %v, after %v\n%s", err, took, p.logged())
	}
	if !strings.Contains(p.logged(), "another signal, ending at once") {
		t.Errorf("no line about it:\n%s", p.logged())
	}
	if took < 2*time.Second {
		t.Errorf("signals within %v ended it", took)
	}
}
