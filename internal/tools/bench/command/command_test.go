package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call runs the command line and returns its status and its output.
func call(args ...string) (status int, out, errOut string) {
	var o, e bytes.Buffer
	status = Main(context.Background(), args, "v1", &o, &e)
	return status, o.String(), e.String()
}

// small returns the flags of a short run against a broker in memory.
func small(t *testing.T) []string {
	t.Helper()
	return []string{"--bootstrap-servers", chronik.StartTest(t).Addr(), "-c", "2", "-d", "700ms", "--warmup", "10ms", "--create-topic"}
}

func TestATableNamesTheClientsAndTheCheck(t *testing.T) {
	status, out, errOut := call(append(small(t), "--verify")...)
	if status != 0 || errOut != "" {
		t.Fatalf("status %d: %s", status, errOut)
	}
	for _, want := range []string{"clients own", "p99.9", "records/s", "verified"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}

func TestJSON(t *testing.T) {
	if status, out, errOut := call(append(small(t), "--json")...); status != 0 || !json.Valid([]byte(out)) {
		t.Errorf("status %d: %s\nno JSON: %s", status, errOut, out)
	}
}

func TestFailuresAreInTheStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, "--acks", []string{"--acks", "7"}},
		{2, "unknown flag", []string{"--no-such-flag"}},
		{2, "no command", []string{"what"}},
		{2, "--rounds", []string{"compare", "--a", "x:1", "--b", "y:1", "--rounds", "0"}},
		{2, "--protocol", []string{"groups", "heartbeats", "--protocol", "x"}},
		{2, "--file-size", []string{"limits", "--no-echo", "--dir", t.TempDir(), "--file-size", "1"}},
		{3, "no response", []string{"--bootstrap-servers", "no.such.host.invalid:9092"}},
		{3, "no response", []string{"groups", "commits", "--bootstrap-servers", "no.such.host.invalid:9092"}},
		{3, "no response", []string{"compare", "--a", "no.such.host.invalid:9092", "--b", "no.such.host.invalid:9093"}},
		{1, "UNKNOWN_TOPIC", []string{"--bootstrap-servers", chronik.StartTest(t).Addr(), "--topic", "none"}},
		{1, "empty", append(small(t), "--mode", "consume")},
	} {
		if status, _, errOut := call(c.args...); status != c.status || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: status %d, not %d: %s", c.args, status, c.status, errOut)
		}
	}
}

func TestJudge(t *testing.T) {
	some, none := &bench.Flow{Records: 1}, &bench.Flow{}
	for _, c := range []struct {
		name   string
		result bench.Result
		want   error
	}{
		{"some", bench.Result{Produce: some}, nil},
		{"none", bench.Result{Produce: none}, bench.ErrNothing},
		{"one direction of two", bench.Result{Produce: some, Consume: none}, bench.ErrNothing},
		{"verified", bench.Result{Produce: some, Verify: &bench.Verification{Unacknowledged: 1, Foreign: 1}}, nil},
		{"lost", bench.Result{Produce: some, Verify: &bench.Verification{Lost: 1}}, ErrLost},
		{"twice", bench.Result{Produce: some, Verify: &bench.Verification{Duplicated: 1}}, ErrLost},
	} {
		err := judge(&c.result)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if code := cli.ExitCode(err); code != map[error]int{bench.ErrNothing: 1, ErrLost: 4}[c.want] {
			t.Errorf("%s: status %d", c.name, code)
		}
	}
}

func TestSubcommands(t *testing.T) {
	for _, name := range []string{"limits", "compare", "groups"} {
		if status, out, errOut := call(name, "--help"); status != 0 || !strings.Contains(out, name) {
			t.Errorf("%s: status %d, %s", name, status, errOut)
		}
	}
	if status, out, _ := call("--version"); status != 0 || !strings.Contains(out, "v1") {
		t.Errorf("version: status %d, %s", status, out)
	}
}
