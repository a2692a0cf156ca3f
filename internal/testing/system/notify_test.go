package system

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

// systemd is the receiving end of the notification protocol (sd_notify(3)).
type systemd struct {
	*testing.T
	conn *net.UnixConn
	path string
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // a socket path has at most 108 bytes
	must.OK(t, err)
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must.OK(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = os.RemoveAll(dir)
	})
	return &systemd{t, conn, path}
}

// next returns the assignments of the next message with one of the wanted ones, and all that
// arrived before it.
func (s *systemd) next(wanted string) (found, before []string) {
	s.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		s.Fatal(err)
	}
	for buf := make([]byte, 64<<10); ; {
		n, err := s.conn.Read(buf)
		if err != nil {
			s.Fatalf("no %s after %q: %v", wanted, before, err)
		}
		message := strings.Split(strings.TrimSpace(string(buf[:n])), "\n")
		if slices.ContainsFunc(message, func(line string) bool { return strings.HasPrefix(line, wanted) }) {
			return message, before
		}
		before = append(before, message...)
	}
}

// drop forgets the messages that have arrived.
func (s *systemd) drop() {
	s.Helper()
	for buf := make([]byte, 64<<10); ; {
		// A deadline in the past would end the read before it looks for a message.
		if err := s.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			s.Fatal(err)
		}
		if _, err := s.conn.Read(buf); err != nil {
			return
		}
	}
}

// never fails if an assignment begins with prefix.
func (s *systemd) never(prefix string, among []string) {
	s.Helper()
	for _, line := range among {
		if strings.HasPrefix(line, prefix) {
			s.Errorf("got %q among %q", line, among)
		}
	}
}

// systemd's notifications from the real process: ready when clients are served, not during
// recovery; keep-alives; stopping; and nothing afterwards.
func TestSystemdNotifications(t *testing.T) {
	s, dir := newSystemd(t), t.TempDir()
	addr, err := ports.Loopback()
	must.OK(t, err)
	env := []string{"NOTIFY_SOCKET=" + s.path, "WATCHDOG_USEC=2000000"}
	launchOne := func() *process {
		t.Helper()
		p, err := launch(dir, env, "--listen", addr, "--admin-listen", "off")
		must.OK(t, err)
		t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
		return p
	}
	p := launchOne()
	message, before := s.next("READY=1")
	s.never("WATCHDOG", before) // the watchdog is not active during a start
	finding := strings.TrimPrefix(strings.Join(message[1:], "\n"), "STATUS=serving 0 partitions on "+addr+", 0 connections")
	if finding != "" && !strings.HasPrefix(finding, "; warn: disk of ") { // that of the machine may have little space
		t.Errorf("ready: %q", message)
	}
	if err := answer(t.Context(), addr); err != nil { // the first client is served at once
		t.Error(err)
	}
	write(t, addr)
	s.next("WATCHDOG=1")
	_ = p.end(syscall.SIGKILL)
	s.drop() // what it sent until its end

	p = launchOne() // this one recovers
	_, before = s.next("READY=1")
	s.never("WATCHDOG=1", before)
	s.next("WATCHDOG=1")
	must.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if message, _ := s.next("STOPPING=1"); !slices.Equal(message, []string{"STOPPING=1", "STATUS=draining"}) {
		t.Errorf("stopping: %q", message)
	}
	if err := p.end(0); err != nil {
		t.Errorf("the drain ended with %v\n%s", err, p.logged())
	}
}

// A process that hangs for any reason sends no keep-alive, and sends them again when it continues.
func TestHangingBrokerSendsNoKeepAlive(t *testing.T) {
	s := newSystemd(t)
	p, err := start(t.TempDir(), []string{"NOTIFY_SOCKET=" + s.path, "WATCHDOG_USEC=200000"}, "--listen", "127.0.0.1:0", "--admin-listen",
		"off")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	s.next("WATCHDOG=1")
	must.OK(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	// Messages sent before the signal took effect are read, until a silence longer than the
	// watchdog's timeout.
	for buf, silent := make([]byte, 4096), false; !silent; {
		must.OK(t, s.conn.SetReadDeadline(time.Now().Add(400*time.Millisecond)))
		_, err := s.conn.Read(buf)
		silent = errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !silent {
			t.Fatal(err)
		}
	}
	must.OK(t, p.cmd.Process.Signal(syscall.SIGCONT))
	s.next("WATCHDOG=1")
}

// A start that fails never reports ready, and reports the reason.
func TestFailedStartNotifiesSystemd(t *testing.T) {
	s, dir := newSystemd(t), t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "data"), nil, 0o600))
	p, err := launch(dir, []string{"NOTIFY_SOCKET=" + s.path}, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	must.OK(t, err)
	message, before := s.next("STOPPING=1")
	s.never("READY", before)
	if len(message) != 2 || !strings.HasPrefix(message[1], "STATUS=failed to start: directory data") {
		t.Errorf("got %q", message)
	}
	if err := p.end(syscall.SIGKILL); err == nil {
		t.Error("it ended with 0")
	}
}

// A process killed by the watchdog dumps its goroutines. Its exit status is not that of a wrong
// configuration, after which a supervisor would not restart it: a signal ends it. That is SIGABRT
// unless Go's runtime fails while it dumps the threads.
func TestWatchdogSignalIsNotAnExitCode(t *testing.T) {
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "off")
	must.OK(t, err)
	err = p.end(syscall.SIGABRT)
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(p.logged(), "goroutine 1 ") {
		t.Errorf("no stacks were dumped: %s", p.logged())
	}
}

// write writes a record, which the next start finds in the journal.
func write(t *testing.T, addr string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation())
	must.OK(t, err)
	defer cl.Close()
	must.OK(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr())
}
