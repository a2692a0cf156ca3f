package checks

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Of two faults with the same check and subject, one is resolved and the other keeps its age.
func TestOneOfTwoFaultsIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, logged := monitored(t)
		must.OK(t, m.Speak(t.Context()))
		unsynchronized := Clock{Known: true}
		set(Facts{Clock: unsynchronized})
		time.Sleep(time.Minute)
		since := m.Last().Findings[0].Since
		stepped := unsynchronized
		stepped.Stepped, stepped.SteppedAt = time.Hour, time.Now()
		set(Facts{Clock: stepped})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		logged()
		set(Facts{Clock: unsynchronized})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := logged(); !strings.HasPrefix(got, "info resolved: the clock was set forward") || strings.Contains(got, "\n") {
			t.Errorf("logged %q", got)
		}
		if got := m.Last().Findings[0].Since; got != since {
			t.Errorf("it exists since %v, and did since %v", got, since)
		}
	})
}

// A flapping finding does not flood the log, and the log has the final state.
func TestAFlappingFindingDoesNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, logged := monitored(t)
		must.OK(t, m.Speak(t.Context()))
		for range 100 {
			set(Facts{Files: Files{Limit: 100, Open: 85}})
			time.Sleep(3 * quickEvery / 2)
			set(Facts{})
			time.Sleep(3 * quickEvery / 2)
		}
		set(Facts{Files: Files{Limit: 100, Open: 99}})
		time.Sleep(quietFor + quickEvery)
		synctest.Wait()
		all := strings.Split(logged(), "\n")
		if most := freeLines + 12; len(all) > most || !strings.HasPrefix(all[len(all)-1], "error 99 of 100") {
			t.Errorf("%d lines, want at most %d:\n%s", len(all), most, strings.Join(all, "\n"))
		}
	})
}

// Checks that hang cause a finding on all surfaces: their last findings must not appear to be
// current.
func TestHungChecksAreReportedWithoutARequest(t *testing.T) {
	for name, add := range map[string]func(*Monitor, func()){
		"the checks":   func(m *Monitor, hang func()) { m.Add(func(*Facts) { hang() }) },
		"slow sources": func(m *Monitor, hang func()) { m.AddSlow(func(*Slow) { hang() }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.DebugLevel)
				m := Start(Options{Checks: Checks(), Log: zap.New(core)})
				m.Enter("")
				must.OK(t, m.Speak(t.Context()))
				free := make(chan struct{})
				add(m, func() { <-free })
				time.Sleep(slowEvery + slowStaleAfter + slowEvery)
				if r := m.Last(); len(r.Findings) != 1 || r.Findings[0].Check != checkResponding || r.Findings[0].Since.IsZero() {
					t.Errorf("%+v", r.Findings)
				} else {
					checkStops(t, &r.Findings[0])
				}
				if n := logs.FilterMessageSnippet(" since ").Len(); n != 1 {
					t.Errorf("%d lines: %v", n, logs.All())
				}
				close(free)
				time.Sleep(2 * quickEvery)
				synctest.Wait()
				if r := m.Last(); len(r.Findings) > 0 || logs.FilterMessageSnippet("resolved").Len() != 1 {
					t.Errorf("%+v, %v", r.Findings, logs.All())
				}
				m.Stop(context.Background())
			})
		})
	}
}

// However many requests there are, the checks use a small part of the time.
func TestManyRequestsShareTheChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		m := Start(Options{Checks: Checks(), Log: zap.NewNop()})
		m.Add(func(*Facts) { runs++; time.Sleep(10 * time.Millisecond) })
		m.Enter("")
		begin := time.Now()
		for range 3 {
			go func() {
				for time.Since(begin) < 2*time.Second {
					m.Report(t.Context())
				}
			}()
		}
		time.Sleep(4 * time.Second)
		m.Stop(context.Background())
		if runs < 10 || runs > 30 {
			t.Errorf("the checks ran %d times", runs)
		}
	})
}

// A fault that is away for some seconds keeps its age. One with another meaning at the same place
// has its own, also if the other one ends at that moment; other names and numbers are no other
// meaning.
func TestTheAgeOfAFaultIsThatOfItsMeaning(t *testing.T) {
	l := newLedger(&Options{Log: zap.NewNop()})
	begin := time.Unix(1_000_000, 0).UTC()
	now := begin
	since := func(after time.Duration, problems ...string) (all []time.Duration) {
		now = now.Add(after)
		var findings []health.Finding
		for _, p := range problems {
			findings = append(findings, health.Finding{Check: "certificate", Subject: "certificate of clients",
				Severity: health.Warn, Problem: p})
		}
		l.enter(findings, now, true)
		for _, f := range findings {
			all = append(all, f.Since.Sub(begin))
		}
		return all
	}
	refused := "its changed files are not used, and the former ones stay in use: open /d/cert.pem: no such file"
	for i, step := range []struct {
		after time.Duration
		text  string
		want  time.Duration
	}{
		{0, refused, 0},
		{time.Minute, strings.Replace(refused, "/d/cert.pem", "/other/key.pem", 1), 0},
		{time.Minute, "", 0},
		{backWithin, refused, 0},
		{time.Minute, "the server certificate expired on 2026-01-02, so clients refuse it: /d/cert.pem", 3*time.Minute + backWithin},
		{time.Minute, "", 0},
		{2 * backWithin, refused, 4*time.Minute + 3*backWithin},
	} {
		var problems []string
		if step.text != "" {
			problems = append(problems, step.text)
		}
		if got := since(step.after, problems...); step.text != "" && got[0] != step.want {
			t.Errorf("step %d: since %v, want %v", i, got[0], step.want)
		}
	}
}
