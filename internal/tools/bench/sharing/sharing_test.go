package sharing

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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The command measures two real brokers, and deletes its topics and groups.
func TestCommandComparesBrokers(t *testing.T) {
	a, b := chronik.StartTest(t), chronik.StartTest(t)
	for d := 200 * time.Millisecond; ; d *= 4 {
		var out, progress bytes.Buffer
		cmd := Command()
		cmd.SetArgs([]string{"--a", a.Addr(), "--b", b.Addr(), "--loads", "1x1", "--rounds", "1", "-d", d.String(),
			"--warmup", "10ms", "--json"})
		cmd.SetOut(&out)
		cmd.SetErr(&progress)
		err := cmd.ExecuteContext(t.Context())
		if errors.Is(err, bench.ErrNothing) && d < 10*time.Second {
			continue // the machine is busy
		}
		must.OK(t, err)
		if n := strings.Count(progress.String(), "1x1: "); n != 2 {
			t.Errorf("%d runs are shown, not 2:\n%s", n, progress.String())
		}
		var r Result
		must.OK(t, json.Unmarshal(out.Bytes(), &r))
		i := slices.IndexFunc(r.Figures, func(f frame.LoadFigure) bool { return f.Name == "acknowledged/s" })
		if i < 0 || !(r.Figures[i].Ratio.Median > 0) {
			t.Errorf("the result is %s", out.String())
		}
		var table bytes.Buffer
		if err := r.Table(&table); err != nil || !strings.Contains(table.String(), "1x1 acknowledge p99 ms") {
			t.Errorf("%v: the table is\n%s", err, table.String())
		}
		break
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.Addr()))
	must.OK(t, err)
	defer cl.Close()
	groups, err := kadm.NewClient(cl).ListGroups(t.Context())
	must.OK(t, err)
	topics, err := kadm.NewClient(cl).ListTopics(t.Context())
	must.OK(t, err)
	if len(groups) != 0 || slices.ContainsFunc(topics.Names(), func(name string) bool { return strings.HasPrefix(name, "chronik-bench") }) {
		t.Errorf("it leaves the groups %v and the topics %v", groups.Groups(), topics.Names())
	}
}

// Every record that a run counts was acknowledged: the group has finished at least as many.
func TestCountedRecordsAreAcknowledged(t *testing.T) {
	broker := chronik.StartTest(t)
	c := Config{Comparison: frame.Comparison{A: frame.Side{Name: "A", Brokers: []string{broker.Addr()}, PID: os.Getpid()},
		Loads:    []string{"10x1", "paced-10x1"},
		Schedule: frame.Schedule{Rounds: 1}, Interval: frame.Interval{Duration: 200 * time.Millisecond}}, Size: 10, Rate: 1000, Keep: true}
	r, err := Measure(t.Context(), c, nil)
	for ; errors.Is(err, bench.ErrNothing) && c.Duration < 10*time.Second; r, err = Measure(t.Context(), c, nil) {
		c.Duration *= 4 // the machine is busy
	}
	must.OK(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()))
	must.OK(t, err)
	defer cl.Close()
	admin := kadm.NewClient(cl)
	var counted, finished int64
	for _, x := range r.Rounds[0].A {
		if counted += x.Records; len(x.Failures) > 0 || x.Active < 1 || x.Active > 10 {
			t.Errorf("%s: %d members, failures %v", x.Load.Name, x.Active, x.Failures)
		}
	}
	groups, err := admin.ListGroups(t.Context())
	must.OK(t, err)
	for _, group := range groups.Groups() {
		offsets, err := admin.DescribeShareGroupOffsets(t.Context(), group)
		must.OK(t, err)
		ends, err := admin.ListEndOffsets(t.Context(), group)
		must.OK(t, err)
		end, _ := ends.Lookup(group, 0)
		at, ok := offsets[group].Offsets.Lookup(group, 0)
		if !ok || at.Err != nil || at.Lag < 0 {
			t.Fatalf("the group %s has the position %+v", group, at)
		}
		finished += end.Offset - at.Lag
	}
	if finished < counted {
		t.Errorf("%d records were counted, and %d finished", counted, finished)
	}
	for _, want := range []string{"10x1 acknowledged/s", "10x1 acknowledge p99 ms",
		"paced-10x1 delivery p50 ms", "10x1 server CPU µs each"} {
		if !slices.ContainsFunc(r.Figures, func(f frame.LoadFigure) bool { return f.Load+" "+f.Name == want && f.A.Median > 0 }) {
			t.Errorf("%s is missing in %v", want, r.Figures)
		}
	}
}

// A load without a success ends the measurement: there is no ratio of failures.
func TestNothingSucceeded(t *testing.T) {
	c := Config{Comparison: frame.Comparison{A: frame.Side{Name: "A", Brokers: []string{"127.0.0.1:1"}},
		Loads: []string{"1x1"}, Schedule: frame.Schedule{Rounds: 1},
		Interval: frame.Interval{Duration: time.Millisecond}}, Size: 8, Rate: 1}
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
		t.Errorf("the error %v has code %d", err, cli.ExitCode(err))
	}
	for _, flag := range []string{"--a", "--b", "--pid-a", "--pid-b", "--name-b", "--loads", "--rounds", "--message-size", "--rate",
		"--warmup",
		"--duration"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is missing in %v", flag, err)
		}
	}
}
