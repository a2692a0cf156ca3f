package ctl_test

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// numbered are command lines to which flags with numbers, durations and sizes can be added. Where a
// flag needs another one, or excludes it, the command has several lines.
var numbered = []string{
	"topic list", "topic describe a", "topic create a", "topic alter a --replication-factor 1", "topic add-partitions a",
	"topic move a 1", "group list", "group describe g", "group reset g", "group peek g a:0", "produce a --transactional-id x",
	"consume a", "broker list", "broker describe 1", "broker drain 1", "broker fill 1", "broker rebalance", "broker move-logs 1",
	"broker maintain 1", "cluster describe", "cluster health", "top", "debug waits --trace x", "debug bundle --file DIR/bundle",
	"user list", "user add u", "user set-password u", "quota list", "cert show", "api-versions", "profile list", "acl list",
	"snapshot list", "txn list", "txn describe t", "txn abort --topic a --partition 0 --start-offset 0", "txn find-hanging",
	"log dump --dir DIR/data", "log repair --dir DIR/data --dry-run", "log verify --dir DIR/data",
}

// extremes are values of each type of flag, from the smallest on. Most flags accept some of those
// between the first and the last.
var extremes = map[string][]string{
	"int":      {"-2147483648", "-1", "0", "1", "100", "2147483647"},
	"float":    {"-1e300", "-1", "0", "1", "1e300"},
	"duration": {"-2540400h", "-1ms", "0s", "1ns", "10s", "2540400h"},
	"bytes":    {"-1", "0", "1", "1048576", "1048576TiB"},
}

// extremesOf returns values for a flag, with its default; none for a flag of another type.
func extremesOf(f *pflag.Flag) []string {
	kind := strings.TrimRight(strings.TrimPrefix(strings.TrimSuffix(f.Value.Type(), "Slice"), "u"), "0123456789")
	values := extremes[kind]
	if value := strings.Trim(f.DefValue, "[]"); values != nil && value != "" {
		values = slices.Insert(slices.Clone(values), 1, value)
	}
	return values
}

// The help of each flag with a number, a duration or a size names the least value if the flag
// refuses small ones, and the largest if it refuses large ones. The refusal names the flag and the
// value.
func TestHelpNamesWhatFlagsRefuse(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, chronik.StartTestIn(t, filepath.Join(dir, "data"), chronik.Options{}).Close())
	ctx, end := context.WithCancel(t.Context())
	end() // a command that accepts its flags ends where it would ask a broker, or wait
	refusal := func(line, name, value string) (refused bool, errs string) {
		args := append(strings.Fields(strings.ReplaceAll(line, "DIR", dir)), "--"+name+"="+value)
		var out, err bytes.Buffer
		code := ctl.Main(ctx, args, version, ctl.Streams{In: strings.NewReader(""), Out: &out, Err: &err,
			Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] }})
		return code == 2, err.String()
	}
	least, most := regexp.MustCompile(`at least -?\d|\d\S* to \d`), regexp.MustCompile(`at most \d|\d\S* to \d`)
	flags := 0
	ctl.Flags(func(c *cobra.Command, f *pflag.Flag) {
		path, values := strings.TrimPrefix(c.CommandPath(), "chronikctl "), extremesOf(f)
		if values == nil {
			return
		}
		flags++
		for _, line := range numbered {
			if line != path && !strings.HasPrefix(line, path+" ") {
				continue
			}
			refused := map[string]string{}
			for _, v := range values {
				if no, errs := refusal(line, f.Name, v); no {
					refused[v] = errs
				}
			}
			if len(refused) == len(values) {
				continue // the line is wrong for this flag
			}
			for v, errs := range refused {
				if !strings.Contains(errs, "--"+f.Name) || !strings.Contains(errs, v) {
					t.Errorf("%s --%s=%s: %s", line, f.Name, v, errs)
				}
			}
			if _, no := refused[values[0]]; no && !least.MatchString(f.Usage) {
				t.Errorf("%s --%s refuses %s; its help names no least value: %s", path, f.Name, values[0], f.Usage)
			}
			if last := values[len(values)-1]; refused[last] != "" && !most.MatchString(f.Usage) {
				t.Errorf("%s --%s refuses %s; its help names no largest value: %s", path, f.Name, last, f.Usage)
			}
			return
		}
		t.Errorf("no line of the test has a value of %s --%s that is accepted", path, f.Name)
	})
	if flags < 40 {
		t.Errorf("only %d flags were found", flags)
	}
}
