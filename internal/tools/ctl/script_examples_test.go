package ctl_test

import (
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// examples runs every example of every command's help in a shell; each must succeed. It interrupts
// those that run until interrupted.
func examples(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: examples")
	}
	var lines []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, line := range strings.Split(c.Example, "\n") {
			if line = strings.TrimSpace(line); line != "" && c.Name() != "completion" {
				lines = append(lines, line)
			}
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(ctl.Root(app.New("v", app.Streams{})))
	// Deletions come after what needs the data, contexts of other hosts come last.
	stage := func(line string) int {
		switch {
		case strings.HasPrefix(line, "chronikctl context"):
			return 3
		case strings.Contains(line, " quota remove "): // also without doing it: there must be one
			return 2
		case strings.Contains(line, "--dry-run"):
			return 0
		case strings.Contains(line, " delete"), strings.Contains(line, " user remove"), strings.Contains(line, " acl remove "):
			return 2
		case strings.Contains(line, " trim "), strings.Contains(line, " repair "):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(lines, func(a, b string) int { return stage(a) - stage(b) })
	var wrong []string
	for _, line := range lines {
		// The examples' paths and hosts are not this machine's.
		line = strings.NewReplacer("/var/lib/chronik", "$WORK/copy", "/mnt/other/", "$WORK/", "/etc/chronik/chronikd.yaml",
			"$WORK/chronikd.yaml",
			"/tmp/", "$WORK/", "b1.example.com:9093", "$TLS --tls-server-name broker.test").Replace(line)
		for _, what := range []string{"describe", "verify", "delete"} { // the number that the cluster gave
			line = strings.Replace(line, " snapshot "+what+" 17", " snapshot "+what+" $(chronikctl snapshot list -o name | tail -n 1)", 1)
		}
		if stage(line) == 1 || stage(line) == 2 || strings.Contains(line, " reset ") {
			line += " --yes"
		}
		if strings.Contains(line, "--follow") || strings.Contains(line, "--watch") {
			line = "timeout -s INT 1 " + line + `; test $? -eq 124`
		}
		if strings.HasPrefix(line, "chronikctl cluster health") || strings.HasPrefix(line, "chronikctl log verify") {
			line += " || test $? -eq 4" // this machine may have something to find
		}
		if strings.Contains(line, " broker maintain ") {
			line = "true" // it is about three machines
		}
		if strings.Contains(line, "debug waits --trace") {
			line += " --for 1s || test $? -eq 1" // no client has this id
		}
		if slices.ContainsFunc([]string{" --replication-factor ", " broker unregister ", " topic move orders", " broker drain ",
			" broker fill ", " broker move-logs "}, func(other string) bool { return strings.Contains(line, other) }) {
			line += " || test $? -eq 1" // there is one broker
		}
		if strings.Contains(line, " --start-offset ") {
			line = "! out=$(" + line + ` 2>&1) && grep -q "no transaction is open there" <<<"$out"` // none hangs
		}
		if err := ts.Exec("bash", "-c", "set -o pipefail; start-consumers() { :; }; "+line); err != nil {
			wrong = append(wrong, line+": "+err.Error())
		}
	}
	if len(wrong) > 0 {
		ts.Fatalf("%s", strings.Join(wrong, "\n"))
	}
}
