package compare

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
)

// parse runs the command line up to its plan.
func parse(t *testing.T, args ...string) (Plan, error) {
	t.Helper()
	cmd, o := newCommand()
	var p Plan
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		p, err = o.planOf(cmd, args)
		return err
	}
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return p, err
}

// The flags of the load apply to both sides, before and after "--"; each side has its own brokers,
// process and changes.
func TestCommandPlans(t *testing.T) {
	p, err := parse(
		t,
		"--a",
		"x:1,y:2",
		"--b",
		"z:3",
		"--pid-a",
		"7",
		"--pid-b",
		"8",
		"--name-a",
		"chronik",
		"--name-b",
		"kafka",
		"--rounds",
		"9",
		"--discard",
		"1",
		"--pause",
		"2s",
		"--echo",
		"--acks",
		"all",
		"--topic-config",
		"a=b",
		"--create-topic",
		"--set-a",
		"topic=mine",
		"--set-b",
		"acks=1",
		"--set-b",
		"topic-config=flush.messages=1",
		"--",
		"-c",
		"16",
		"-d",
		"3s",
	)
	must.OK(t, err)
	if p.Rounds != 9 || p.Discard != 1 || p.Pause != 2*time.Second || !p.Echo || p.A.Name != "chronik" || p.B.Name != "kafka" {
		t.Errorf("%+v", p)
	}
	a, b := p.A.Config, p.B.Config
	for _, c := range []bench.Config{a, b} {
		if c.Concurrency != 16 || c.Duration != 3*time.Second || !c.CreateTopic {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(a.Brokers, []string{"x:1", "y:2"}) || a.ServerPID != 7 || a.Topic != "mine" || a.Acks != bench.AcksAll ||
		!maps.Equal(a.TopicConfig, map[string]string{"a": "b"}) {
		t.Errorf("A %+v", a)
	}
	if !slices.Equal(b.Brokers, []string{"z:3"}) || b.ServerPID != 8 || b.Topic != bench.Default().Topic || b.Acks != bench.AcksLeader ||
		!maps.Equal(b.TopicConfig, map[string]string{"flush.messages": "1"}) {
		t.Errorf("B %+v", b)
	}
}

func TestCommandRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--a: name":            {"--b", "b:1"},
		"--b: name":            {"--a", "a:1"},
		"each side has":        {"--a", "a:1", "--b", "b:1", "--bootstrap-servers", "c:1"},
		"--server-pid: each":   {"--a", "a:1", "--b", "b:1", "--", "--server-pid", "5"},
		`"rest" is not a flag`: {"--a", "a:1", "--b", "b:1", "rest"},
		"flags of the load":    {"--a", "a:1", "--b", "b:1", "--", "--nonsense"},
		"not name=value":       {"--a", "a:1", "--b", "b:1", "--set-a", "acks"},
		"--set-b":              {"--a", "a:1", "--b", "b:1", "--set-b", "nonsense=1"},
	} {
		if _, err := parse(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not one about %q", args, err, want)
		}
	}
}
