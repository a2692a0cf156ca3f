package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// monitored returns a Monitor of a serving broker, over facts that the test changes.
func monitored(t *testing.T) (m *Monitor, set func(Facts), logged func() string) {
	t.Helper()
	var facts atomic.Pointer[Facts]
	facts.Store(&Facts{})
	core, logs := observer.New(zap.DebugLevel)
	m = Start(Options{Broker: 7, Version: "v", Member: true, Checks: Checks(), Log: zap.New(core)})
	m.Add(func(f *Facts) {
		now, slow := f.Now, f.Slow
		*f = *facts.Load()
		f.Now, f.Slow = now, slow
	})
	m.Enter("")
	t.Cleanup(func() { m.Stop(context.Background()) })
	return m, func(f Facts) { facts.Store(&f) }, func() string {
		var lines []string
		for _, e := range logs.TakeAll() {
			lines = append(lines, fmt.Sprint(e.Level, " ", e.Message))
		}
		return strings.Join(lines, "\n")
	}
}

// The log has a line when a finding appears, when its severity changes and when it is resolved,
// whatever its numbers do in between, and none before Speak.
func TestAFindingIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, logged := monitored(t)
		is := func(when, want string) {
			t.Helper()
			if got := logged(); got != want {
				t.Errorf("%s: logged %q, want %q", when, got, want)
			}
		}
		change := func(f Facts) {
			set(f)
			time.Sleep(5 * time.Second) // no fault stays unknown for longer
			synctest.Wait()
		}
		change(Facts{Files: Files{Limit: 100, Open: 85}})
		begun := m.Last().Findings[0].Since
		is("silent", "")
		must.OK(t, m.Speak(t.Context()))
		is("speaks", "warn 85 of 100 files are open: at the limit new connections and segments are refused")
		change(Facts{Files: Files{Limit: 100, Open: 90}})
		is("other numbers", "")
		change(Facts{Files: Files{Limit: 100, Open: 99}})
		is("worse", "error 99 of 100 files are open: new connections and segments are refused, or soon will be")
		if since := m.Last().Findings[0].Since; since != begun || since.IsZero() {
			t.Errorf("it exists since %v, and did since %v", since, begun)
		}
		change(Facts{})
		is("well", "info resolved: 99 of 100 files are open: new connections and segments are refused, or soon will be")
		// Two findings of the same check and subject are different faults.
		change(Facts{Settings: Settings{Warnings: []string{"a", "b"}}})
		is("loud notes", "warn a\nwarn b")
		change(Facts{Settings: Settings{Profile: builtin("os"), Warnings: []string{"a"}}})
		got := logged()
		if !strings.Contains(got, "info it is the default") || !strings.Contains(got, "info resolved: b") || strings.Count(got, "\n") != 1 {
			t.Errorf("a quiet note: %q", got)
		}
	})
}

// A report after a request has the current state, not that of some seconds ago.
func TestAReportIsCurrent(t *testing.T) {
	m, set, _ := monitored(t)
	set(Facts{Files: Files{Limit: 100, Open: 85}})
	r := m.Report(t.Context())
	if len(r.Findings) != 1 || len(r.Checks) != len(Checks()) || !r.Ready || r.Broker != 7 || r.Version != "v" {
		t.Errorf("%+v", r)
	}
	m.Enter("draining")
	m.Progress("/d", "partitions read", 3, 7)
	m.Stop(context.Background())
	r = m.Report(t.Context())
	if want := "not ready: draining\n/d: partitions read: 3 of 7\nwarn: limit of open files: 85 of 100 files are open: at the limit new connections and segments are refused\n"; r.Text() != want ||
		r.Ready {
		t.Errorf("%s", r.Text())
	}
	if err := m.Speak(t.Context()); err == nil {
		t.Error("a stopped Monitor accepts Speak")
	}
}

// Readiness depends on the findings, not only on the phase.
func TestReadinessFollowsTheFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []bool
		var failed atomic.Bool
		m := Start(Options{Checks: Checks(), Log: zap.NewNop(), Ready: func(ready bool) { changes = append(changes, ready) }})
		m.Add(func(f *Facts) {
			if failed.Load() {
				f.Dirs = []view.Dir{{Path: "/d", Error: "x"}}
			}
		})
		m.Enter("")
		failed.Store(true)
		time.Sleep(2 * quickEvery)
		failed.Store(false)
		time.Sleep(2 * quickEvery)
		m.Enter("draining")
		m.Stop(context.Background())
		if want := []bool{true, false, true, false}; !slices.Equal(changes, want) {
			t.Errorf("%v, want %v", changes, want)
		}
	})
}

// A report has a change that was announced, and is not as old as the last checks.
func TestAChangeIsExaminedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, _ := monitored(t)
		m.Report(t.Context())
		set(Facts{Files: Files{Limit: 100, Open: 85}})
		m.Expect(0)
		m.Expect(0)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := m.Last().Findings; len(got) != 1 {
			t.Errorf("%d findings, want 1", len(got))
		}
	})
}

// Clients are not shown a broker that is fenced, from a moment on in which no check has seen that.
// A report of that moment is not a healthy one, and the next one has the finding, also if the
// metadata are applied only after the announcement.
func TestNoReportIsHealthyBeforeTheChecksHaveAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, _ := monitored(t)
		at := func(revision int64, state string) Facts {
			return Facts{Serving: true, Cluster: &view.Cluster{Self: 1, Revision: revision, Brokers: []view.Broker{{ID: 2, State: state}}}}
		}
		has := func(text string) bool {
			return slices.ContainsFunc(m.Last().Findings, func(f health.Finding) bool { return strings.Contains(f.Problem, text) })
		}
		const behind, fenced = "the checks do not have it yet", "it is fenced"
		set(at(7, "active"))
		m.Expect(7)
		time.Sleep(mostPause)
		synctest.Wait()
		if has(behind) || has(fenced) {
			t.Fatalf("before: %+v", m.Last().Findings)
		}
		m.Expect(8)
		if !has(behind) {
			t.Errorf("announced: %+v", m.Last().Findings)
		}
		time.Sleep(mostPause)
		synctest.Wait()
		if !has(behind) { // the checks ran over the former metadata
			t.Errorf("not applied: %+v", m.Last().Findings)
		}
		set(at(8, "fenced"))
		time.Sleep(behindPause)
		synctest.Wait()
		if has(behind) || !has(fenced) {
			t.Errorf("applied: %+v", m.Last().Findings)
		}
	})
}

// A broker that waits for others continues when a cause is removed, not after some time.
func TestTheRemedyOfAPhaseThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Start(Options{Checks: Checks(), Log: zap.NewNop()})
		for phase, want := range map[string]string{
			"the registration of broker 3 is refused": "remove the cause that it names", "waiting for logs": "wait: ",
		} {
			if m.Enter(phase); phase != "waiting for logs" {
				m.Await(phase, OtherBrokers)
			}
			if r := m.Own(); len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Remedy, want) {
				t.Errorf("%s: %+v, want the remedy %q", phase, r.Findings, want)
			}
		}
		m.Stop(context.Background())
	})
}

// A source that hangs delays a report by at most a second, and the report has a finding about it.
func TestAReportDoesNotWaitForALockThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		m := Start(Options{Checks: Checks(), Log: zap.NewNop()})
		m.Enter("")
		m.Add(func(*Facts) { <-hang })
		if r := m.Report(t.Context()); len(r.Findings) > 0 {
			t.Errorf("a busy machine is reported as hung: %+v", r.Findings)
		}
		time.Sleep(staleAfter)
		begun := time.Now()
		r := m.Report(t.Context())
		if took := time.Since(begun); took != patience || len(r.Findings) != 1 || r.Findings[0].Check != checkResponding ||
			r.Findings[0].Severity != health.Bad {
			t.Errorf("after %v: %+v", took, r.Findings)
		}
		for i := range r.Findings {
			checkStops(t, &r.Findings[i])
		}
		close(hang)
		m.Stop(context.Background())
	})
}

// A file system that does not respond blocks neither the checks nor a stop.
func TestAHungFileSystemBlocksNoCheck(t *testing.T) {
	hang, entered := make(chan struct{}), make(chan struct{})
	m := Start(Options{Checks: Checks(), Slow: []SlowSource{func(*Slow) { close(entered); <-hang }}, Log: zap.NewNop()})
	<-entered
	m.Enter("")
	if r := m.Report(t.Context()); len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Speak(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	m.Stop(ctx)
	close(hang)
	m.Stop(context.Background())
}
