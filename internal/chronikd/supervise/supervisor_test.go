package supervise

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health/checks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a service manager that records its messages.
type manager struct {
	mu   sync.Mutex
	told []string
}

func (m *manager) send(state string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, state)
	return nil
}

// take returns the messages since the last call.
func (m *manager) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	return told
}

// starting is a broker that has only its health.
type starting struct {
	health *checks.Monitor
}

// forOthers is the phase of a start that waits for other brokers.
const forOthers = "waiting for seeds"

func (*starting) Addrs() []string  { return nil }
func (b *starting) Status() string { return b.health.Last().Text() }
func (b *starting) Moves() uint64  { return b.health.Moves() }
func (b *starting) Waiting() bool  { return b.health.Phase() == forOthers }

// supervised returns a supervisor of a broker that starts.
func supervised(t *testing.T, m *manager, watch time.Duration) (*Supervisor, *starting) {
	b := &starting{health: checks.Start(checks.Options{Log: zap.NewNop()})}
	t.Cleanup(func() { b.health.Stop(context.Background()) })
	s := New(zap.NewNop())
	s.send, s.watch = m.send, watch
	s.Begin(b)
	return s, b
}

// A start may take as long as it makes progress: each sign of progress extends the manager's limit,
// and a start that hangs extends nothing.
func TestAStartIsGivenTimeWhileItMakesProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{}
		s, b := supervised(t, m, 0)
		b.health.Enter("recovering logs")
		b.health.Progress("/d", "partitions read", 3, 7)
		time.Sleep(statusEvery)
		synctest.Wait()
		want := []string{"EXTEND_TIMEOUT_USEC=120000000\nSTATUS=not ready: recovering logs; /d: partitions read: 3 of 7"}
		if got := m.take(); !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		time.Sleep(time.Hour)
		if got := m.take(); len(got) != 0 {
			t.Errorf("a start without progress sent %q", got)
		}
		b.health.Progress("/d", "partitions read", 7, 7)
		time.Sleep(statusEvery)
		synctest.Wait()
		if got := m.take(); len(got) != 1 || !strings.HasPrefix(got[0], "EXTEND_TIMEOUT_USEC=") || !strings.HasSuffix(got[0], "read: 7") {
			t.Errorf("sent %q", got)
		}
		s.End()
	})
}

// A start may wait for other brokers as long as they need: systemd must not end it.
func TestAStartWaitsForOtherBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{}
		s, b := supervised(t, m, 0)
		b.health.Enter(forOthers)
		m.take()
		time.Sleep(time.Hour)
		extended := 0
		for _, told := range m.take() {
			if strings.HasPrefix(told, "EXTEND_TIMEOUT_USEC=") {
				extended++
			}
		}
		if least := int(time.Hour / startExtension); extended < 2*least || extended > 5*least {
			t.Errorf("extended %d times in an hour, each by %v", extended, startExtension)
		}
		b.health.Enter("recovering logs")
		time.Sleep(time.Minute)
		m.take()
		time.Sleep(time.Hour)
		if got := m.take(); len(got) > 0 {
			t.Errorf("a start that hangs after it waited sent %q", got)
		}
		s.End()
	})
}

// A start that fails reports why; the text remains readable when the process has ended.
func TestAFailedStartSaysWhy(t *testing.T) {
	m := &manager{}
	s, _ := supervised(t, m, time.Minute)
	s.Failed(errors.New("directory /d: in use\nstop that broker"))
	s.End()
	want := []string{"STOPPING=1\nSTATUS=failed to start: directory /d: in use; stop that broker"}
	if got := m.take(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// A broker sends keep-alives while it serves with progress and while it drains, but not while it
// starts: systemd bounds a start by another limit.
func TestKeepAlivesFollowTheLifeOfTheBroker(t *testing.T) {
	alive := func(state string, p *pulse) bool {
		s := New(zap.NewNop())
		s.watch = time.Minute
		defer s.drain()
		return s.alive(event{state: state}, p)
	}
	stuck := &pulse{dirs: []Dir{&dir{stalled: time.Hour}}}
	if alive("", nil) {
		t.Error("a start sent a keep-alive")
	}
	if alive(sd.SdNotifyReady, stuck) {
		t.Error("a broker that hangs sent a keep-alive")
	}
	if !alive(sd.SdNotifyStopping, stuck) {
		t.Error("a broker that drains sent no keep-alive")
	}
}

// A stop does not wait for a progress check of a broker that does not respond.
func TestAStopEndsAProgressCheck(t *testing.T) {
	l := listen(t) // no connection is accepted
	s := New(zap.NewNop())
	s.watch = time.Hour
	p := &pulse{address: l.Addr().String()}
	defer p.close()
	time.AfterFunc(10*time.Millisecond, s.drain)
	if !s.alive(event{state: sd.SdNotifyReady}, p) {
		t.Error("a broker that stops counts as hung")
	}
}

// Without a service manager nothing is started and nothing waits.
func TestWithoutAManagerNothingIsSent(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	s := New(zap.NewNop())
	s.Begin(&starting{})
	s.Ready(nil)
	s.Stopping(nil)
	s.End()
	if s.serving.Err() != context.Canceled {
		t.Error("not ended")
	}
}
