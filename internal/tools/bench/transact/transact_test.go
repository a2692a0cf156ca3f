package transact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The command measures two real brokers, and deletes its topics.
func TestCommandComparesBrokers(t *testing.T) {
	a, b := chronik.StartTest(t), chronik.StartTest(t)
	for d := 200 * time.Millisecond; ; d *= 4 {
		var out, progress bytes.Buffer
		cmd := Command()
		cmd.SetArgs([]string{"--a", a.Addr(), "--b", b.Addr(), "--loads", "plain", "--rounds", "2", "-d", d.String(), "--warmup", "10ms",
			"--json"})
		cmd.SetOut(&out)
		cmd.SetErr(&progress)
		err := cmd.ExecuteContext(t.Context())
		if errors.Is(err, bench.ErrNothing) && d < 10*time.Second {
			continue // the machine is busy
		}
		must.OK(t, err)
		if n := strings.Count(progress.String(), "plain: "); n != 4 {
			t.Errorf("%d runs are shown, not 4:\n%s", n, progress.String())
		}
		var r Result
		must.OK(t, json.Unmarshal(out.Bytes(), &r))
		i := slices.IndexFunc(r.Figures, func(f frame.LoadFigure) bool { return f.Load == "plain" && f.Name == "records/s" })
		if i < 0 || !(r.Figures[i].A.Median > 0) || !(r.Figures[i].Ratio.Median > 0) || len(r.Rounds) != 2 {
			t.Errorf("the result is %s", out.String())
		}
		var table bytes.Buffer
		if err := r.Table(&table); err != nil || !strings.Contains(table.String(), "plain records/s") {
			t.Errorf("%v: the table is\n%s", err, table.String())
		}
		return
	}
}

// Every transaction that a run counts was committed: readers of committed records get its records.
func TestCountedTransactionsAreCommitted(t *testing.T) {
	broker := chronik.StartTest(t)
	c := Config{Comparison: frame.Comparison{A: frame.Side{Name: "A", Brokers: []string{broker.Addr()}, PID: os.Getpid()},
		Loads: []string{"ten", "batch", "plain", "latency"}, Schedule: frame.Schedule{Rounds: 1},
		Interval: frame.Interval{Duration: 200 * time.Millisecond}}, Size: 10, Keep: true}
	r, err := Measure(t.Context(), c, nil)
	for ; errors.Is(err, bench.ErrNothing) && c.Duration < 10*time.Second; r, err = Measure(t.Context(), c, nil) {
		c.Duration *= 4 // the machine is busy
	}
	must.OK(t, err)
	var counted int64
	for _, x := range r.Rounds[0].A {
		if counted += x.Records; x.Records != x.Transactions*int64(x.Load.Records) || len(x.Failures) > 0 {
			t.Errorf("%s: %d transactions with %d records, failures %v", x.Load.Name, x.Transactions, x.Records, x.Failures)
		}
	}
	for _, want := range []string{"ten transactions/s", "batch % of plain", "batch EndTxn p50 ms", "latency end-to-end p99 ms",
		"plain server CPU µs each", "batch client CPU µs each"} {
		if !slices.ContainsFunc(r.Figures, func(f frame.LoadFigure) bool { return f.Load+" "+f.Name == want && f.A.Median > 0 }) {
			t.Errorf("%s is missing in %v", want, r.Figures)
		}
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.ConsumeRegex(), kgo.ConsumeTopics("^chronik-bench-txn-.*"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must.OK(t, err)
	defer reader.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for seen := int64(0); seen < counted; {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("%d of %d records were read: %v", seen, counted, err)
		}
		seen += int64(fetched.NumRecords())
	}
}

// A load without a success ends the measurement: there is no ratio of failures.
func TestNothingSucceeded(t *testing.T) {
	c := Config{Comparison: frame.Comparison{A: frame.Side{Name: "A", Brokers: []string{"127.0.0.1:1"}},
		Loads: []string{"one"}, Schedule: frame.Schedule{Rounds: 1},
		Interval: frame.Interval{Duration: time.Millisecond}}, Size: 1}
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if r, err := Measure(ctx, c, nil); err == nil {
		t.Errorf("no broker gave the result %v", r)
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	c := Config{Comparison: frame.Comparison{A: frame.Side{Name: "x", Brokers: []string{"x"}, PID: -1},
		B: &frame.Side{Name: "x", PID: -1}, Loads: []string{"what"},
		Interval: frame.Interval{Warmup: -1}}}
	err := c.check()
	if cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("exit code %d", cli.ExitCode(err))
	}
	for _, flag := range []string{"--a:", "--b:", "--pid-a:", "--pid-b:", "--name-b:", "--loads:", "--rounds:",
		"--message-size:", "--warmup:", "--duration:"} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is not named in %q", flag, err)
		}
	}
}

// run returns a run with a rate of transactions per second.
func run(name string, plain bool, rate int64) *Run {
	return &Run{Load: Load{Name: name, Plain: plain}, Transactions: rate, Records: 100 * rate, Elapsed: time.Second,
		End: results.Latency{P50: float64(rate)}}
}

func TestFiguresAreMediansOfRatios(t *testing.T) {
	var rounds []frame.LoadRound[*Run]
	for _, r := range [][4]int64{{10, 100, 20, 40}, {20, 100, 10, 40}, {80, 100, 20, 40}} {
		rounds = append(rounds, frame.LoadRound[*Run]{A: []*Run{run("batch", false, r[0]), run("plain", true, r[1])},
			B: []*Run{run("batch", false, r[2]), run("plain", true, r[3])}})
	}
	want := map[string][3]float64{ // medians of A, B and A/B
		"batch transactions/s": {20, 20, 2}, "batch records/s": {2000, 2000, 2}, "plain records/s": {10_000, 4000, 2.5},
		"batch EndTxn p50 ms": {0.02, 0.02, 2}, "plain EndTxn p50 ms": {0.1, 0.04, 2.5}, "batch % of plain": {20, 50, 0.8},
	}
	got := figures(rounds)
	if len(got) != len(want) {
		t.Errorf("%d figures, not %d: %v", len(got), len(want), got)
	}
	for _, f := range got {
		w := want[f.Load+" "+f.Name]
		if f.A.Median != w[0] || f.B.Median != w[1] || f.Ratio.Median != w[2] {
			t.Errorf("%s %s: %v %v %v, expected %v", f.Load, f.Name, f.A, *f.B, *f.Ratio, w)
		}
	}
	for i := range rounds {
		rounds[i].B = nil
	}
	for _, f := range figures(rounds) {
		if f.B != nil || f.Ratio != nil {
			t.Errorf("%s %s has a side that was not measured", f.Load, f.Name)
		}
	}
}
