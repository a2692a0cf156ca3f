package compare

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/pkg/chronik"
)

// The command compares two real brokers with an echo, and every line is there.
func TestCommandComparesBrokers(t *testing.T) {
	a, b := chronik.StartTest(t), chronik.StartTest(t)
	run := func(args ...string) (string, string) {
		t.Helper()
		for d := 200 * time.Millisecond; ; d *= 4 {
			var out, errs bytes.Buffer
			cmd := Command()
			cmd.SetArgs(
				slices.Concat([]string{"--a", a.Addr(), "--b", b.Addr(), "--name-a", "one", "--name-b", "two", "--rounds", "2", "--echo",
					"--pid-a", strconv.Itoa(os.Getpid()), "--pid-b", strconv.Itoa(os.Getpid()), "--create-topic", "--verify"}, args,
					[]string{"--", "-c", "4", "-d", d.String(), "--warmup", "10ms"}),
			)
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			err := cmd.ExecuteContext(t.Context())
			if err != nil && (!strings.Contains(err.Error(), "nothing succeeded") || d > 10*time.Second) {
				t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
			}
			// On a busy machine a short interval may have neither a response nor a hundredth of a
			// second of CPU time, which is the system's unit.
			if err == nil && (strings.Contains(out.String()+errs.String(), "server CPU") || d > 10*time.Second) {
				return out.String(), errs.String()
			}
		}
	}
	table, _ := run()
	for _, want := range []string{"round 1  one", "round 2  two", "round 2  echo", "medians of 2 rounds", "one / two",
		"two / echo", "produce records/s", "produce p99.9 ms", "server CPU"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	doc, rounds := run("--json")
	var c Comparison
	if err := json.Unmarshal([]byte(doc), &c); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	if len(c.Rounds) != 2 || c.Rounds[1].B.Verify == nil || c.Rounds[1].Echo == nil || len(c.Measures) < 9 ||
		c.Measures[0].Ratio.Median <= 0 {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(rounds, "round 2  two") {
		t.Errorf("the rounds on standard error: %s", rounds)
	}
}
