package ctl_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// A broker shows the metadata quorum and the states of brokers, also if it is alone.
func TestAClusterShowsItsQuorum(t *testing.T) {
	at := chronik.StartTest(t, chronik.Options{}).Addr()
	for _, c := range []struct{ line, want, never string }{
		{"cluster describe", `(?s)STATE\n +1 .* active\n.*\nmetadata  leader 1  term \d+  \d+ entries committed\nBROKER  ROLE +BEHIND +SILENT\n +1  leader +0 +0.0 s\n$`, "MEMBER"},
		{"cluster describe -o wide", `MEMBER`, "null"},
		{"cluster describe -o json", `"metadataQuorum"`, "null"},
		{"broker list", `STATE\n +1 .* active\n$`, "metadata"},
	} {
		var out, errs bytes.Buffer
		code := ctl.Main(t.Context(), strings.Fields(c.line+" --admin off"), version, ctl.Streams{Out: &out, Err: &errs,
			Getenv: func(name string) string {
				return map[string]string{"CHRONIK_BROKERS": at, "HOME": t.TempDir()}[name]
			}})
		if code != 0 || !regexp.MustCompile(c.want).MatchString(out.String()) || regexp.MustCompile(c.never).MatchString(out.String()) {
			t.Errorf("%s: code %d\n%s%s", c.line, code, out.String(), errs.String())
		}
	}
}
