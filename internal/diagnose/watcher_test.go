package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a Watcher over facts that the test changes.
func watched(t *testing.T) (w *Watcher, facts *atomic.Pointer[Facts], told func() string) {
	t.Helper()
	facts = &atomic.Pointer[Facts]{}
	facts.Store(&Facts{})
	core, logs := observer.New(zap.DebugLevel)
	w = Start(Options{Facts: facts.Load, Checks: Checks(), Every: time.Minute, Log: zap.New(core)})
	t.Cleanup(func() { w.Stop(context.Background()) })
	return w, facts, func() string {
		var lines []string
		for _, e := range logs.TakeAll() {
			lines = append(lines, fmt.Sprint(e.Level, " ", e.Message))
		}
		return strings.Join(lines, "\n")
	}
}

// The log has a line when a finding appears and one when it goes, whatever its
// numbers do in between, and none before it is asked to.
func TestAFindingIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, facts, told := watched(t)
		is := func(when, want string) {
			t.Helper()
			if got := told(); got != want {
				t.Errorf("%s: logged %q, want %q", when, got, want)
			}
		}
		minute := func(f Facts) {
			facts.Store(&f)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		minute(Facts{Files: Files{Limit: 100, Open: 85}})
		if n := len(w.Last().Findings); n != 1 {
			t.Errorf("%d findings", n)
		}
		is("silent", "")
		if err := w.Speak(t.Context()); err != nil {
			t.Fatal(err)
		}
		is("speaks", "warn 85 of 100 files are open: without one left connections are refused and segments cannot be opened")
		minute(Facts{Files: Files{Limit: 100, Open: 90}})
		is("other numbers", "")
		minute(Facts{Files: Files{Limit: 100, Open: 99}})
		got := told()
		if !strings.HasPrefix(got, "error 99 of 100 files are open: connections are refused") || !strings.HasSuffix(got, "\ninfo no longer: 90 of 100 files are open: without one left connections are refused and segments cannot be opened") {
			t.Errorf("worse: %q", got)
		}
		minute(Facts{})
		is("well", "info no longer: 99 of 100 files are open: connections are refused and segments cannot be opened")
		// Two of the same check and place are two.
		minute(Facts{Settings: Settings{Warnings: []string{"a", "b"}}})
		is("loud notes", "warn a\nwarn b")
		minute(Facts{Settings: Settings{Profile: "os", Warnings: []string{"a"}}})
		got = told()
		if !strings.Contains(got, "info it is the default") || !strings.Contains(got, "info no longer: b") || strings.Count(got, "\n") != 1 {
			t.Errorf("a quiet note: %q", got)
		}
		// What another room logs is not repeated.
		minute(Facts{Settings: Settings{Profile: "os", Warnings: []string{"a"}}, Partitions: []Broken{{Partition: "t-0", Why: "x"}},
			Standing: []Finding{{Check: CheckLogDir, Severity: Bad, Subject: "s", What: "w", Remedy: "r"}}})
		is("told elsewhere", "")
		if n := len(w.Last().Findings); n != 4 {
			t.Errorf("%d findings, want 4", n)
		}
	})
}

// Whoever asks gets what is true now, not what was true a minute ago.
func TestNowIsNow(t *testing.T) {
	w, facts, _ := watched(t)
	facts.Store(&Facts{Files: Files{Limit: 100, Open: 85}})
	if r, err := w.Now(t.Context()); err != nil || len(r.Findings) != 1 || len(r.Looked) != len(Checks()) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A machine that does not answer holds nobody but the Watcher.
func TestNobodyWaitsForAMachineThatHangs(t *testing.T) {
	hang, entered := make(chan struct{}), make(chan struct{})
	w := Start(Options{Facts: func() *Facts { close(entered); <-hang; return &Facts{} }, Every: time.Hour, Log: zap.NewNop()})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := w.Now(ctx); !errors.Is(err, context.Canceled) || r == nil {
		t.Errorf("%v, %v", r, err)
	}
	w.Stop(ctx)
	if w.Last() == nil {
		t.Error("no result")
	}
	close(hang)
	w.Stop(context.Background())
	if _, err := w.Now(t.Context()); err == nil {
		t.Error("a Watcher that was stopped answers")
	}
}
