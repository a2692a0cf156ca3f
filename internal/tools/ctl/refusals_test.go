package ctl_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// A user without rights learns what a command attempted, and how to continue: of each noun that
// needs a right, at least one command.
func TestRefusalsSayWhatToDo(t *testing.T) {
	b, err := chronik.OpenMemory(context.Background(), chronik.Options{
		Settings: map[string]string{"authorization": "acl", "super-users": "User:admin"}})
	must.OK(t, err)
	defer func() { _ = b.Close() }()
	for command, want := range map[string][2]string{ // what was attempted, and the right that it needs
		"user list":                    {"describe users: ", "describe on cluster"},
		"user set-password eve":        {"describe users: ", "describe on cluster"},
		"acl list":                     {"list ACLs: ", "describe on cluster"},
		"acl explain eve read topic:t": {"list ACLs: ", "describe on cluster"},
		"quota list":                   {"list quotas: ", "describe-configs on cluster"},
		"quota set request_percentage=1 --user u": {"quotas: ", "configs on cluster"},
		"topic create t":                             {"create t: ", "create on topic:t"},
		"config describe broker 1":                   {"broker 1: ", "describe-configs on cluster"},
		"config set topic t segment.bytes=1MiB":      {"topic t: ", "alter-configs on topic:t"},
		"config set broker default num.partitions=1": {"broker default: ", "alter-configs on cluster"},
		"group describe g":                           {"g: ", "describe on group:g"},
	} {
		t.Run(command, func(t *testing.T) {
			var out, errs bytes.Buffer
			s := ctl.Streams{In: strings.NewReader("password\n"), Out: &out, Err: &errs, Getenv: func(name string) string {
				return map[string]string{"CHRONIK_BROKERS": b.Addr(), "HOME": t.TempDir()}[name]
			}}
			code := ctl.Main(t.Context(), strings.Fields(command), version, s)
			if code == 0 || !strings.Contains(errs.String(), want[0]) ||
				!strings.Contains(errs.String(), "; ask for the permission ") ||
				!strings.Contains(errs.String(), want[1]+", or use another user") {
				t.Errorf("exit code %d: %s%s", code, &out, &errs)
			}
		})
	}
}
