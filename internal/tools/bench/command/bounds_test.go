package command

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// No service uses this port, so a connection is refused.
const nobody = "127.0.0.1:71"

// numbered are command lines to which flags with numbers and durations can be added. Where a flag
// needs another one, the command has several lines.
var numbered = []string{
	"", "--mode e2e", "limits --no-echo --dir DIR", "limits", "compare --a NOBODY --b NOBODY --sync=false",
	"compare --a NOBODY --b NOBODY --sync=false --mode e2e", "groups heartbeats", "groups rebalance", "groups commits",
	"txn --b NOBODY --sync=false", "share --b NOBODY --sync=false", "connections logins", "connections idle --server-pid 1",
}

// extremes are values of each type of flag, from the smallest on. Most flags accept some of those
// between the first and the last.
var extremes = map[string][]string{
	"int":      {"-2147483648", "-1", "0", "1", "100", "9223372036854775807"},
	"float":    {"-1e300", "-1", "0", "1", "1e300"},
	"duration": {"-2540400h", "-1ms", "0s", "1ns", "10s", "2540400h"},
}

// extremesOf returns values for a flag, with its default; none for a flag of another type.
func extremesOf(f *pflag.Flag) []string {
	values := extremes[strings.TrimRight(strings.TrimSuffix(f.Value.Type(), "Slice"), "0123456789")]
	if value := strings.Trim(f.DefValue, "[]"); values != nil && value != "" {
		values = slices.Insert(slices.Clone(values), 1, value)
	}
	return values
}

// eachFlag calls f with every flag of a command and of those below it.
func eachFlag(c *cobra.Command, f func(*cobra.Command, *pflag.Flag)) {
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) { f(c, flag) })
	for _, child := range c.Commands() {
		eachFlag(child, f)
	}
}

// The help of each flag with a number or a duration names the least value if the flag refuses small
// ones, and the largest if it refuses large ones.
func TestHelpNamesWhatFlagsRefuse(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end() // a command that accepts its flags ends before it asks a broker or measures
	at := strings.NewReplacer("DIR", t.TempDir(), "NOBODY", nobody)
	// refusal returns the line of the error that is about the flag, "" if there is none.
	refusal := func(line, name, value string) string {
		var out, errs bytes.Buffer
		args := append(strings.Fields(at.Replace(line)), "--"+name+"="+value)
		if status := Main(ctx, args, "v1", &out, &errs); status == 0 {
			t.Errorf("%s --%s=%s: status 0 in a context that has ended: %s", line, name, value, out.String())
		}
		about := regexp.MustCompile(`(?m)^chronik-bench: (?:[AB]: )?--` + name + `: .*|.* for ".*--` + name + `" flag: .*`)
		return about.FindString(errs.String())
	}
	least, most := regexp.MustCompile(`(at least|above) -?\d|\d\S* to \S`), regexp.MustCompile(`at most \d|\d\S* to \S`)
	flags := 0
	eachFlag(New("v1"), func(c *cobra.Command, f *pflag.Flag) {
		path, values := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "chronik-bench"), " "), extremesOf(f)
		if values == nil || f.Hidden {
			return
		}
		flags++
		for _, line := range numbered {
			if words := strings.Fields(line); path != strings.Join(words[:min(len(words), len(strings.Fields(path)))], " ") ||
				path == "" && len(words) > 0 && !strings.HasPrefix(line, "-") {
				continue
			}
			refused := map[string]string{}
			for _, v := range values {
				if text := refusal(line, f.Name, v); text != "" {
					refused[v] = text
				}
			}
			if len(refused) == len(values) {
				continue // the line is wrong for this flag
			}
			first, last := refused[values[0]], refused[values[len(values)-1]]
			if first != "" && !least.MatchString(f.Usage) {
				t.Errorf("%s --%s: its help names no least value: %s\n%s", path, f.Name, f.Usage, first)
			}
			// Which processes exist is no bound.
			if last != "" && !strings.Contains(last, "can't be read") && !most.MatchString(f.Usage) {
				t.Errorf("%s --%s: its help names no largest value: %s\n%s", path, f.Name, f.Usage, last)
			}
			return
		}
		t.Errorf("no line of the test has a value of %s --%s that is accepted", path, f.Name)
	})
	if flags < 40 {
		t.Errorf("only %d flags were found", flags)
	}
}
