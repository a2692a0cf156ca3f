package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/limits"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// The test binary is its own echo server, as chronik-bench is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "echo-server" {
		cmd := limits.EchoServerCommand()
		cmd.SetArgs(os.Args[2:])
		if err := cmd.ExecuteContext(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// plan returns a plan of two brokers that the tests never contact.
func plan(rounds int) Plan {
	a, b := bench.Default(), bench.Default()
	a.Brokers, b.Brokers = []string{"a:1"}, []string{"b:1"}
	a.Duration, b.Duration = time.Second, time.Second
	return Plan{A: Side{Config: a}, B: Side{Config: b}, Schedule: frame.Schedule{Rounds: rounds}}
}

// measured returns a result of records per second, each with this latency.
func measured(c bench.Config, records int64, latency time.Duration) *bench.Result {
	h := meter.NewHistogram()
	_ = h.RecordValues(latency.Microseconds(), records)
	return &bench.Result{
		Config:  c,
		Elapsed: time.Second,
		CPU:     &bench.CPU{Seconds: 1, PerRequest: time.Second / time.Duration(max(records, 1))},
		Produce: &bench.Flow{Requests: records, Records: records, PayloadBytes: records * 256, Latency: h, Series: []bench.Point{{At: 1}}},
	}
}

// script returns the results of A's and B's runs from lists and records the order.
type script struct {
	a, b  []int64
	order []string
}

func (s *script) compare() compare {
	return compare{
		run: func(_ context.Context, c bench.Config, _ bench.Progress) (*bench.Result, error) {
			s.order = append(s.order, c.Brokers[0][:1])
			from := &s.a
			if c.Brokers[0] == "b:1" {
				from = &s.b
			}
			n := (*from)[0]
			*from = (*from)[1:]
			return measured(c, n, time.Duration(1e9/n)), nil
		},
		echo: func(_ context.Context, c limits.EchoConfig) (*limits.EchoResult, error) {
			s.order = append(s.order, "e")
			f := measured(bench.Default(), 1000, time.Millisecond).Produce
			return &limits.EchoResult{Config: c, Flow: results.FlowOf(bench.NamedFlow{Name: "echo", Flow: f}, time.Second),
				Server: &results.CPU{PerRequest: 500}}, nil
		},
	}
}

// Sides alternate, discarded rounds do not count, and ratios are of a round: the median of the
// ratios is not the ratio of the medians.
func TestRatiosAreComputedWithinRounds(t *testing.T) {
	s := &script{a: []int64{9999, 200, 800, 300}, b: []int64{1, 100, 1000, 100}}
	p := plan(3)
	p.Discard, p.Echo = 1, true
	var turns []string
	r, err := s.compare().all(t.Context(), p, func(line string) {
		turns = append(turns, strings.Join(strings.SplitN(line, "  ", 3)[:2], " "))
	})
	must.OK(t, err)
	if got := strings.Join(s.order, ""); got != "abeabeabeabe" {
		t.Errorf("turns %s", got)
	}
	if want := []string{"discarded round 1 A", "discarded round 1 B", "discarded round 1 echo", "round 1 A", "round 1 B", "round 1 echo",
		"round 2 A", "round 2 B", "round 2 echo", "round 3 A", "round 3 B", "round 3 echo"}; !slices.Equal(turns, want) {
		t.Errorf("told of %v", turns)
	}
	if len(r.Rounds) != 3 {
		t.Fatalf("%d rounds count", len(r.Rounds))
	}
	m := find(t, r, "records/s")
	if m.Flow != "produce" || *m.A != (frame.Spread{Median: 300, Min: 200, Max: 800}) ||
		*m.B != (frame.Spread{Median: 100, Min: 100, Max: 1000}) || *m.Ratio != (frame.Spread{Median: 2, Min: 0.8, Max: 3}) {
		t.Errorf("records/s %+v: the ratios of the rounds are 2, 0.8 and 3", m)
	}
	if m.Echo == nil || *m.Echo != (frame.Spread{Median: 1000, Min: 1000, Max: 1000}) ||
		*m.AEcho != (frame.Spread{Median: 0.3, Min: 0.2, Max: 0.8}) || *m.BEcho != (frame.Spread{Median: 0.1, Min: 0.1, Max: 1}) {
		t.Errorf("against the echo %+v", m)
	}
	if m := find(t, r, "p99 ms"); m.A.Min < 1.24 || m.A.Min > 1.26 || m.Ratio.Min < 0.33 || m.Ratio.Min > 0.34 {
		t.Errorf("p99 %+v: A's are 5, 1.25 and 3.33 ms, B's 10, 1 and 10", m)
	}
	if m := find(t, r, "server CPU us"); m.A.Min != 1250 || *m.Echo != (frame.Spread{Median: 500, Min: 500, Max: 500}) {
		t.Errorf("CPU %+v", m)
	}
}

func find(t *testing.T, c *Comparison, name string) Measure {
	t.Helper()
	for _, m := range c.Measures {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no %s in %+v", name, c.Measures)
	return Measure{}
}

// A run that failed, had no success, or lost a record gives no ratio.
func TestNoRatioIsBasedOnFailures(t *testing.T) {
	broken := errors.New("no broker answers")
	for name, tc := range map[string]struct {
		result *bench.Result
		err    error
		want   string
	}{
		"error": {nil, broken, "no broker answers"},
		"nothing": {&bench.Result{Elapsed: 1, Produce: &bench.Flow{Failures: map[string]int64{"NOT_LEADER_OR_FOLLOWER": 3}}},
			nil, "nothing succeeded; produce failed 3 times: NOT_LEADER_OR_FOLLOWER"},
		"loss":      {verified(1, 0), nil, "VERIFICATION FAILED"},
		"duplicate": {verified(0, 1), nil, "VERIFICATION FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			c := compare{run: func(_ context.Context, c bench.Config, _ bench.Progress) (*bench.Result, error) {
				if c.Brokers[0] == "a:1" {
					return measured(c, 10, time.Millisecond), nil
				}
				return tc.result, tc.err
			}}
			r, err := c.all(t.Context(), plan(1), nil)
			if err == nil || r != nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "round 1, B: ") {
				t.Errorf("%v, %v; want an error of B about %q", r, err, tc.want)
			}
		})
	}
}

func verified(lost, duplicated int64) *bench.Result {
	r := measured(bench.Default(), 10, time.Millisecond)
	r.Verify = &bench.Verification{Acknowledged: 10, Lost: lost, Duplicated: duplicated}
	return r
}

// An interrupt drops the current round and keeps the earlier ones.
func TestInterrupted(t *testing.T) {
	for _, complete := range []int{0, 2} {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		c := compare{run: func(_ context.Context, c bench.Config, _ bench.Progress) (*bench.Result, error) {
			if runs++; runs == 2*complete+2 { // B of the next round
				cancel()
			}
			return measured(c, 10, time.Millisecond), nil
		}}
		r, err := c.all(ctx, plan(5), nil)
		if complete == 0 {
			if !errors.Is(err, context.Canceled) || r != nil {
				t.Errorf("no round: %v, %v", r, err)
			}
			continue
		}
		if err != nil || len(r.Rounds) != complete {
			t.Fatalf("%d rounds: %+v, %v", complete, r, err)
		}
		var b strings.Builder
		if err := r.Table(&b); err != nil || !strings.Contains(b.String(), "INTERRUPTED after 2 of 5 rounds") {
			t.Errorf("%v in\n%s", err, b.String())
		}
	}
}

// The pause is between runs, and an interrupt ends it.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{a: []int64{1, 1}, b: []int64{1, 1}}
		p := plan(2)
		p.Pause = time.Minute
		begin := time.Now()
		if _, err := s.compare().all(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 3*time.Minute {
			t.Errorf("4 runs in %v, with a minute between two", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s = &script{a: []int64{1}, b: []int64{1}}
		begin = time.Now()
		if _, err := s.compare().all(ctx, p, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestPlanRefuses(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"--rounds: 0":                         func(p *Plan) { p.Rounds = 0 },
		"--discard: -1":                       func(p *Plan) { p.Discard = -1 },
		"pause":                               func(p *Plan) { p.Pause = -1 },
		"both sides have the name":            func(p *Plan) { p.A.Name, p.B.Name = "x", "x" },
		"B: --bootstrap-servers":              func(p *Plan) { p.B.Config.Brokers = nil },
		"an echo is only comparable":          func(p *Plan) { p.Echo, p.B.Config.Clients = true, bench.ClientsShared },
		"an echo is only comparable with mod": func(p *Plan) { p.Echo, p.A.Config.Rate = true, 5 },
	} {
		p := plan(1)
		change(&p)
		if _, err := Run(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not one about %q", err, want)
		}
	}
}

// The table names both sides with their clients and has a line for each measure. It reports
// failures next to successes.
func TestTable(t *testing.T) {
	s := &script{a: []int64{200}, b: []int64{100}}
	p := plan(1)
	p.A.Name, p.B.Name, p.Echo = "chronik", "kafka", true
	r, err := s.compare().all(t.Context(), p, nil)
	must.OK(t, err)
	r.Rounds[0].B.Flows[0].Failures = map[string]int64{"REQUEST_TIMED_OUT": 2}
	var b strings.Builder
	must.OK(t, r.Table(&b))
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"chronik: clients own: 128 connections", "kafka: clients own", "chronik / kafka echo chronik / echo kafka / echo",
		"produce records/s 200 (200..200) 100 (100..100) 2.00 (2.00..2.00) 1000 (1000..1000) 0.200 (0.200..0.200) 0.100 (0.100..0.100)",
		"produce p99.9 ms 5.00", "produce server CPU us 5000", "round 1, kafka; produce failed 2 times: REQUEST_TIMED_OUT",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// A figure that one side does not have is left out.
func TestMissingFiguresAreLeftOut(t *testing.T) {
	c := compare{run: func(_ context.Context, c bench.Config, _ bench.Progress) (*bench.Result, error) {
		r := measured(c, 10, time.Millisecond)
		r.CPU = nil
		r.Produce.PayloadBytes = 0 // values of no bytes
		if c.Brokers[0] == "a:1" {
			r.Consume = measured(c, 10, time.Millisecond).Produce
		}
		return r, nil
	}}
	r, err := c.all(t.Context(), plan(2), nil)
	must.OK(t, err)
	for _, m := range r.Measures {
		if m.Flow != "produce" || strings.Contains(m.Name, "CPU") || strings.Contains(m.Name, "payload") || m.Echo != nil {
			t.Errorf("%+v", m)
		}
	}
	if len(r.Measures) != 7 {
		t.Errorf("%d measures, not records/s and six of latency", len(r.Measures))
	}
}
