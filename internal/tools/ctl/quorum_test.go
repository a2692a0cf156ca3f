package ctl_test

import (
	"bytes"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// A member of a cluster shows the metadata quorum and the states of brokers; a single node does
// not.
func TestAClusterShowsItsQuorum(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	at := l.Addr().String() // it must be known before the broker starts
	must.OK(t, l.Close())
	b, err := chronik.Start(t.Context(), chronik.Options{Dir: t.TempDir(), Listen: at, Settings: map[string]string{
		"cluster.name": "test", "cluster.seeds": at, "node.id": "1"}})
	must.OK(t, err)
	defer b.Close()
	alone := chronik.StartTest(t, chronik.Options{})
	for _, c := range []struct{ broker, line, want, never string }{
		{at, "cluster describe", `(?s)STATE\n +1 .* active\n.*\nmetadata  leader 1  term \d+  \d+ entries committed\nBROKER  ROLE +BEHIND +SILENT\n +1  leader +0 +0.0 s\n$`, "MEMBER"},
		{at, "cluster describe -o wide", `MEMBER`, "null"},
		{at, "cluster describe -o json", `"metadataQuorum"`, "null"},
		{at, "broker list", `STATE\n +1 .* active\n$`, "metadata"},
		{alone.Addr(), "cluster describe", `REPLICAS\n +1 `, "STATE|metadata  leader"},
		{alone.Addr(), "cluster describe -o json", `"brokers"`, `metadataQuorum|"state"`},
		{alone.Addr(), "broker list", `REPLICAS\n`, "STATE"},
	} {
		var out, errs bytes.Buffer
		code := ctl.Main(t.Context(), strings.Fields(c.line+" --admin off"), version, ctl.Streams{Out: &out, Err: &errs,
			Getenv: func(name string) string {
				return map[string]string{"CHRONIK_BROKERS": c.broker, "HOME": t.TempDir()}[name]
			}})
		if code != 0 || !regexp.MustCompile(c.want).MatchString(out.String()) || regexp.MustCompile(c.never).MatchString(out.String()) {
			t.Errorf("%s: code %d\n%s%s", c.line, code, out.String(), errs.String())
		}
	}
}
