package ctl_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/names"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// mistakes are wrong command lines with their standard input.
func mistakes() [][]string {
	return slices.Concat(elsewhere(), misspelt(), transactions(), jobs(), misset(), unanswered(), refused())
}

// elsewhere are commands and flags of other tools that this one has under another name or lacks.
func elsewhere() [][]string {
	return [][]string{
		{"", "topic", "consume", "x"},
		{"", "topic", "produce", "x"},
		{"", "group", "lag", "g"},
		{"", "status"},
		{"", "acl", "list"},
		{"", "cluster", "info"},
		{"", "cluster", "health", "--exit-when-healthy"},
		{"", "topic", "describe", "--all"},
		{"", "bundle"},
	}
}

// habits are command lines as other tools have them.
func habits() [][]string {
	return [][]string{
		{"", "get", "topics"},
		{"", "broker", "remove", "3"},
		{"", "broker", "stop", "3"},
		{"", "broker", "move", "3"},
		{"", "cluster", "voters"},
		{"", "cluster", "health", "--broker", "2"},
		{"", "topic", "rename", "a", "b"},
		{"", "topic", "move", "--status"},
		{"", "group", "list-offsets", "g"},
		{"", "produce", "a", "-m", "hello"},
		{"", "pub", "orders", "hello"},
		{"", "logs"},
		{"", "config", "use-context", "prod"},
		{"", "group", "reset-offsets", "g", "--to-earliest"},
		{"", "group", "reset", "g", "--to", "earliest"},
		{"", "topic", "alter-config", "x", "--set", "a=b"},
		{"", "acl", "create", "--allow-principal", "User:a"},
		{"", "topic", "list", "--bootstrap-server", "a:9092"},
		{"", "consume", "-b", "a:9092"},
		{"", "produce", "orders", "hello"},
		{"", "config", "get", "orders"},
		{"", "config", "alter", "topic", "orders", "retention.ms=1d"},
		{"", "topic", "create", "orders", "--replicas", "3"},
		{"", "topic", "create", "orders", "--replication", "3"},
		{"", "group", "list", "--all-groups"},
		{"", "consume", "orders", "-f", "%k %v"},
		{"", "topic", "delete", "*-a", "--regex"},
		{"", "topic", "delete", "no-*", "--regex", "--yes"},
		{"", "config", "set", "topic", "a", "log.retention.hours=1"},
		{"", "config", "set", "topic", "a", "log.retention.minutes=1"},
		{"", "topic", "create", "orders", "--config", "log.retention.hours=1"},
		{"", "config", "set", "broker", "default", "log.retention.hours=1"},
		{"", "config", "set", "retention.ms=7d"},
		{"", "config", "set", "topic", "retention.ms=7d"},
		{"", "topic", "list", "--under-replicated-partitions"},
		{"", "topic", "describe", "--unavailable-partitions"},
		{"", "topic", "add-partitions", "orders", "-n", "8"},
		{"", "topic", "alter", "orders", "--partitions", "8"},
		{"", "topic", "trim", "orders", "--offset", "5"},
		{"", "consume", "-t", "orders"},
		{"", "produce", "-t", "orders"},
		{"", "group", "describe", "--group", "g"},
		{"", "group", "describe", "-g", "g"},
		{"", "quota", "set", "--producer-byte-rate", "1MiB"},
		{"", "broker", "uncordon", "1"},
		{"", "cluster", "members"},
		{"", "whoami"},
		{"", "login"},
	}
}

// misspelt are command lines with typing mistakes.
func misspelt() [][]string {
	return append(habits(), [][]string{
		{"", "topc"},
		{"", "topic", "lst"},
		{"", "help", "nothing"},
		{"", "topic", "lits"},
		{"", "top", "--interval", "1ms"},
		{"", "debug", "bundle", "--dir", "/nowhere/at/all"},
		{"", "debug", "bundle", "--file", "/nowhere/at/all/b.tar.gz"},
		{"", "consume", "a", "--offset", "end"},
		{"", "consume", "a", "--tail", "2"},
		{"", "consume", "a", "-o", "earliest"},
		{"", "group", "list", "--all"},
		{"", "completion", "tcsh"},
		{"", "topic", "create"},
		{"", "topic", "create", "x", "--partiton", "3"},
		{"", "topic", "create", "x", "6"},
		{"", "topic", "create", "x", "--wrong"},
		{"", "topic", "create", "x", "--partitions", "many"},
		{"", "topic", "create", "x", "--partitions", "0"},
		{"", "topic", "create", "x", "--replication-factor", "-2"},
		{"", "topic", "create", "x", "--config", "segment.bytes"},
		{"", "topic", "create", "x", "--config", "a=1", "--config", "a=2"},
		{"", "topic", "create", "x", "--config", "retention.ms=soon"},
		{"", "topic", "create", "x", "--config", "segment.bytes=1G"},
		{"", "topic", "delete", "a", ""},
		{"", "consume", ""},
		{"", "consume", "a", "--group", ""},
		{"", "group", "list", "--state", "Idle"},
		{"", "topic", "alter", "a"},
		{"", "topic", "alter", "a", "--config", "x=1", "--unset", "x"},
		{"", "topic", "add-partitions", "a"},
		{"", "topic", "trim", "a"},
		{"", "topic", "trim", "a", "--before", "soon"},
		{"", "topic", "trim", "a", "--before", "1", "--partition", "3-1"},
		{"", "config", "get", "topic"},
		{"", "config", "list", "quota"},
		{"", "config", "list", "topic", "a"},
		{"", "config", "get", "quota", "g"},
		{"", "config", "set", "orders", "retention.ms=1"},
		{"", "config", "get", "logger", "one"},
		{"", "config", "get", "broker", "one"},
		{"", "config", "set", "topic", "a", "x"},
		{"", "config", "unset", "topic", "a", "x=1"},
		{"", "produce"},
		{"", "produce", "a", "--acks", "2"},
		{"", "produce", "a", "--compression", "zip"},
		{"", "produce", "a", "--header", "x"},
		{"", "produce", "a", "--max-batch-bytes", "1"},
		{"", "produce", "a", "--max-batch-bytes", "1G"},
		{"", "produce", "a", "--max-batch-bytes", "1TiB"},
		{"", "produce", "a", "--partition", "-2"},
		{"", "produce", "a", "--rate", "-1"},
		{"", "produce", "a", "--input", "xml"},
		{"", "produce", "a", "--input", "json", "-k", ":"},
		{"", "produce", "a", "--same-partition"},
		{"", "produce", "a", "-k", "\\q"},
		{"", "produce", "a", "--timestamp", "soon"},
		{"", "produce", "a", "--tombstone", "-k", ":"},
		{"", "consume", "a", "-k", "\\x"},
		{"", "produce", "a", "--file", "/nowhere/at/all"},
		{"", "consume", "a", "--from", "now"},
		{"", "consume", "a", "--until", "later"},
		{"", "consume", "a", "--count", "-1"},
		{"", "consume", "a", "--partition", "x"},
		{"", "consume", "a", "--format", "%q"},
		{"", "consume", "a", "--format", "%v", "-o", "json"},
		{"", "consume", "a", "--format", "%v", "--headers"},
		{"", "consume", "a", "--offsets", "-o", "json"},
		{"", "consume", "a", "--group-protocol", "consumer"},
		{"", "consume", "a", "--group", "g", "--group-protocol", "next"},
		{"", "consume", "a", "--group", "g", "--partition", "1"},
		{"", "consume", "a", "--group", "g", "--until", "5"},
		{"", "group", "reset", "g"},
		{"", "group", "reset", "g", "--to-latest", "--to-earliest"},
		{"", "group", "reset", "g", "--to-offset", "-1"},
		{"", "group", "reset", "g", "--to-time", "soon"},
		{"", "group", "reset", "g", "--to-latest", "--topic", ":1"},
		{"", "group", "reset", "g", "--to-latest", "--topic", "a", "--topic", "a:1"},
		{"", "group", "reset", "g", "--from-file", "/nowhere/at/all"},
		{"", "group", "reset", "g", "--from-file", "BADFILE"},
		{"", "group", "reset", "g", "--from-file", "BADFILE", "--topic", "a"},
		{"", "group", "export"},
		{"", "group", "export", "g", "--all"},
		{"", "group", "delete-offsets", "g"},
		{"", "broker", "describe", "one"},
		{"", "cluster", "health", "--groups", "2h"},
		{"", "log", "verify"},
		{"", "log", "verify", "--dir", "/nowhere/at/all"},
		{"", "log", "verify", "--dir", "BADFILE"},
		{"", "log", "verify", "--dir", "EMPTYDIR"},
		{"", "log", "verify", "--dir", "EMPTYDIR", "--config", "BADFILE"},
		{"", "log", "verify", "--config", "BADFILE"},
		{"", "log", "verify", "--config", "/nowhere/at/all"},
		{"", "log", "dump", "files", "--dir", "EMPTYDIR"},
		{"", "log", "dump", "--dir", "EMPTYDIR", "--partition", "-2"},
		{"", "log", "repair", "--dir", "EMPTYDIR"},
		{"", "log", "repair", "--dir", "/nowhere/at/all", "--dry-run"},
	}...)
}

// transactions are wrong command lines about transactions.
func transactions() [][]string {
	return [][]string{
		{"", "txn", "fence", "x"},
		{"", "txn", "list", "--state", "Open"},
		{"", "txn", "abort"},
		{"", "txn", "abort", "x", "--topic", "a"},
		{"", "txn", "abort", "--topic", "a", "--partition", "0"},
		{"", "txn", "find-hanging", "--partition", "0"},
		{"", "consume", "a", "--read-committed"},
		{"", "consume", "a", "--isolation", "committed"},
		{"", "produce", "a", "--transaction-records", "10"},
		{"", "produce", "a", "--transactional-id", "x", "--acks", "1"},
		{"", "produce", "a", "--transactional-id", ""},
	}
}

// jobs are wrong command lines about replicas, leaders and brokers.
func jobs() [][]string {
	return [][]string{
		{"", "broker", "unregister", "one"},
		{"", "broker", "unregister"},
		{"", "topic", "elect", ":1"},
		{"", "topic", "move", "a:0"},
		{"", "topic", "move", "a:0", "1,1"},
		{"", "topic", "move", "a:0", "1", "--at-a-time", "0"},
		{"", "topic", "move", "a:0", "1", "--throttle", "fast"},
		{"", "topic", "move", "--file", "BADFILE"},
		{"", "topic", "move", "--file", "/nowhere/at/all"},
		{"", "topic", "move", "a:0", "1", "--file", "BADFILE"},
		{"", "topic", "move", "--cancel"},
		{"", "broker", "fill", "one"},
		{"", "broker", "drain"},
		{"", "broker", "drain", "1", "2"},
		{"", "broker", "maintain", "1", "--wait", "soon"},
		{"", "broker", "maintain", "1", "--"},
		{"", "broker", "maintain", "1", "--end", "--", "true"},
		{"", "broker", "maintain", "--", "true"},
		{"", "topic", "elect", "a:x"},
		{"", "topic", "elect", "a:0", "a:1"},
		{"", "broker", "unregister", "7"},
		{"", "topic", "elect", "none"},
		{"", "topic", "move", "none", "1"},
		{"", "topic", "move", "a:7", "1"},
		{"", "topic", "move", "a:0", "7"},
		{"", "broker", "fill", "7"},
		{"", "broker", "drain", "7"},
		{"", "broker", "drain", "1"},
		{"", "broker", "drain", "1", "x"},
		{"", "broker", "drain", "1", "7", "--end"},
		{"", "broker", "maintain", "7", "--wait", "1ms"},
		{"", "topic", "elect", "a:7"},
	}
}

// misset are command lines with a wrong setting.
func misset() [][]string {
	return [][]string{
		{"", "topic", "list", "-o", "xml"},
		{"", "topic", "list", "--timeout", "soon"},
		{"", "topic", "list", "--brokers", "host:port"},
		{"", "topic", "list", "--admin", "nowhere"},
		{"", "topic", "list", "--tls=maybe"},
		{"", "topic", "list", "--tls-ca", "/nowhere/at/all"},
		{"", "topic", "list", "--tls-ca", "BADFILE"},
		{"", "topic", "list", "--tls-cert", "x"},
		{"", "topic", "list", "--tls-cert", "BADFILE", "--tls-key", "BADFILE"},
		{"", "topic", "list", "--sasl", "MAGIC"},
		{"", "topic", "list", "--sasl", "PLAIN", "--sasl-user", "me"},
		{"", "topic", "list", "--sasl", "PLAIN", "--sasl-password", "x"},
		{"", "topic", "list", "--sasl-user", "me"},
		{"", "topic", "list", "--sasl", "PLAIN", "--sasl-user", "me", "--sasl-password-file", "/nowhere/at/all"},
		{"", "topic", "list", "--context", "none"},
		{"", "context", "use", "none"},
		{"", "context", "delete", "none"},
		{"", "context", "set", "a b", "brokers=localhost:1"},
		{"", "context", "set", "a", "brokers"},
		{"", "context", "set", "a", "broker=x"},
		{"", "context", "set", "a", "timeout=soon"},
	}
}

// unanswered are command lines that get no answer.
func unanswered() [][]string {
	return [][]string{
		{"", "topic", "list", "--brokers", "NOBODY"},
		{"", "topic", "list", "--brokers", "no.such.host.invalid:9092", "--timeout", "5s"},
		{"", "topic", "list", "--tls"},
		{"", "topic", "list", "--sasl", "PLAIN", "--sasl-user", "me", "--sasl-password", "x"},
		{"", "profile", "list", "--admin", "NOBODY"},
		{"", "profile", "show", "none"},
	}
}

// refused are command lines that the broker refuses.
func refused() [][]string {
	return [][]string{
		{"", "topic", "create", "a"},
		{"", "topic", "create", "bad!name"},
		{"", "topic", "create", "x", "--replication-factor", "3"},
		{"", "topic", "create", "x", "--config", "segment.byte=1"},
		{"", "topic", "create", "x", "--config", "segment.bytes=1"},
		{"", "topic", "describe", "none"},
		{"", "topic", "describe", "A"},
		{"", "topic", "delete", "none", "--yes"},
		{"", "topic", "delete", "a"},
		{"", "topic", "add-partitions", "a", "--to", "1"},
		{"", "topic", "trim", "none", "--before", "1"},
		{"", "topic", "trim", "a", "--before", "7", "--yes"},
		{"", "config", "get", "topic", "none"},
		{"", "config", "get", "topic", "a", "segment"},
		{"", "config", "set", "topic", "a", "segment.bytes=x"},
		{"", "config", "set", "topic", "a", "min.insync.replicas=many"},
		{"", "config", "set", "topic", "a", "segmnt.bytes=1048576"},
		{"", "config", "unset", "topic", "a", "segment"},
		{"", "config", "set", "group", "g", "consumer.session.timout.ms=50000"},
		{"", "config", "set", "logger", "1", "storage=DEBUG"},
		{"", "config", "set", "logger", "1", "root=LOUD"},
		{"", "config", "unset", "logger", "1", "root"},
		{"", "config", "set", "broker", "1", "num.partitions=3"},
		{"", "config", "get", "broker", "7"},
		{"no separator\n", "produce", "a", "-k", ":"},
		{"{}{}\n", "produce", "a", "--input", "json"},
		{strings.Repeat("x", 2000) + "\n", "produce", "a"},
		{strings.Repeat("x", 2000) + "\n", "produce", "a", "--max-batch-bytes", "1024"},
		{"x\n", "produce", "a", "--partition", "9"},
		{"x\n", "produce", "bad!name"},
		{"", "consume", "none"},
		{"", "consume", "aa"},
		{"", "consume", "a", "--from", "7"},
		{"", "consume", "a", "--partition", "9"},
		{"", "group", "describe", "none"},
		{"", "group", "delete", "none", "--yes"},
		{"", "group", "reset", "none", "--to-latest", "--yes"},
		{"", "group", "reset", "none", "--to-latest", "--topic", "nope", "--yes"},
		{"", "group", "reset", "none", "--to-latest", "--topic", "a"},
		{"", "group", "export", "none"},
		{"", "broker", "describe", "7"},
		{"", "profile", "explain", "none"},
	}
}

// Every error that a user can cause says what happened, where, and what to do. Review the texts in
// testdata/errors.golden.
func TestMessages(t *testing.T) {
	names.None(t)
	b := chronik.StartTest(t)
	home := t.TempDir()
	bad := filepath.Join(home, "bad")
	must.OK(t, os.WriteFile(bad, []byte("neither PEM nor offsets\n"), 0o600))
	empty := t.TempDir()
	at := strings.NewReplacer("BADFILE", bad, "EMPTYDIR", empty, "NOBODY", unusedAddress)
	back := strings.NewReplacer(bad, "BADFILE", empty, "EMPTYDIR", unusedAddress, "NOBODY", b.Addr(), "BROKER", home, "HOME")
	getenv := func(name string) string { return map[string]string{"HOME": home, "CHRONIK_BROKERS": b.Addr()}[name] }
	run := func(in string, args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = ctl.Main(t.Context(), args, version, ctl.Streams{In: strings.NewReader(in), Out: &o, Err: &e, Getenv: getenv})
		return code, o.String(), e.String()
	}
	if code, _, errs := run("", "topic", "create", "a", "-p", "2", "-c", "max.message.bytes=1000"); code != 0 {
		t.Fatal(errs)
	}
	var all strings.Builder
	for _, m := range mistakes() {
		args := make([]string, len(m)-1)
		for i, arg := range m[1:] {
			args[i] = at.Replace(arg)
		}
		code, out, errs := run(m[0], args...)
		if code == 0 || out != "" || !strings.Contains(errs, "chronikctl: ") {
			t.Errorf("%v: code %d, out %q, error %q", args, code, out, errs)
		}
		fmt.Fprintf(&all, "$ chronikctl %s\n%s[%d]\n\n", strings.Join(m[1:], " "), passing(back.Replace(errs)), code)
	}
	golden.File(t, "testdata/errors.golden", all.String(), "go test ./internal/tools/ctl -run Messages")
}

// passing removes what differs between runs.
func passing(text string) string {
	return regexp.MustCompile(`on \S+:53`).ReplaceAllString(text, "on RESOLVER")
}

// What an error repeats does not affect the terminal.
func TestErrorsAreShownPlainly(t *testing.T) {
	var out, errs bytes.Buffer
	code := ctl.Main(t.Context(), []string{"config", "get", "a\x1b[2J\u202eb", "x"}, version, ctl.Streams{Out: &out, Err: &errs,
		Getenv: func(string) string { return "" }})
	if got := errs.String(); code != 2 || strings.ContainsAny(got, "\x1b\u202e") || !strings.Contains(got, `topic a\x1b[2J\u202eb`) {
		t.Errorf("code %d, %q", code, got)
	}
}

// An unknown variable causes a warning; one that is close to a setting ends the run before
// anything is sent.
func TestVariablesThatNobodyReads(t *testing.T) {
	b := chronik.StartTest(t)
	for _, c := range []struct {
		variable, want string
		code           int
	}{
		{"CHRONIKCTL_BROKER=x:1", "chronikctl: there is no variable CHRONIKCTL_BROKER; did you mean CHRONIKCTL_BROKERS?\n", 2},
		{"CHRONIKCTL_VERSION=1", "warning: the variable CHRONIKCTL_VERSION is not read: no setting has this name\n", 0},
	} {
		var out, errs bytes.Buffer
		code := ctl.Main(t.Context(), []string{"topic", "list"}, version, ctl.Streams{Out: &out, Err: &errs, Environ: []string{c.variable},
			Getenv: func(name string) string { return map[string]string{"CHRONIK_BROKERS": b.Addr()}[name] }})
		if code != c.code || errs.String() != c.want {
			t.Errorf("%s: code %d, %s", c.variable, code, errs.String())
		}
	}
}

// A run leaves no goroutine behind.
func TestNothingIsLeftRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	b, err := chronik.OpenMemory(t.Context(), chronik.Options{Settings: map[string]string{"group.initial.rebalance.delay.ms": "0"}})
	must.OK(t, err)
	for _, line := range []string{"topic create a", "produce a", "consume a", "consume a --group g", "group list", "group describe g",
		"cluster health", "api-versions", "profile explain a", "topic delete a --yes", "consume a"} {
		ctl.Main(t.Context(), strings.Fields(line), version, ctl.Streams{In: strings.NewReader("x\n"), Out: &bytes.Buffer{},
			Err: &bytes.Buffer{},
			Getenv: func(name string) string {
				return map[string]string{"CHRONIK_BROKERS": b.Addr(), "HOME": t.TempDir()}[name]
			}})
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
