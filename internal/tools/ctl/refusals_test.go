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

// A user without rights learns from each command what it attempted, and how to continue.
func TestRefusalsSayWhatToDo(t *testing.T) {
	b, err := chronik.OpenMemory(context.Background(), chronik.Options{
		Settings: map[string]string{"authorization": "acl", "super-users": "User:admin"}})
	must.OK(t, err)
	defer func() { _ = b.Close() }()
	for command, attempted := range map[string]string{
		"user list":                    "describe users: ",
		"user set-password eve":        "describe users: ",
		"acl list":                     "list ACLs: ",
		"acl explain eve read topic:t": "list ACLs: ",
		"quota list":                   "list quotas: ",
		"quota set request_percentage=1 --user u": "quotas: ",
		"topic create t":           "create t: ",
		"config describe broker 1": "broker 1: ",
		"group describe g":         "g: ",
	} {
		t.Run(command, func(t *testing.T) {
			var out, errs bytes.Buffer
			s := ctl.Streams{In: strings.NewReader("password\n"), Out: &out, Err: &errs, Getenv: func(name string) string {
				return map[string]string{"CHRONIK_BROKERS": b.Addr(), "HOME": t.TempDir()}[name]
			}}
			code := ctl.Main(t.Context(), strings.Fields(command), version, s)
			if code == 0 || !strings.Contains(errs.String(), attempted) || !strings.Contains(errs.String(), "; ask for the permission") {
				t.Errorf("exit code %d: %s%s", code, &out, &errs)
			}
		})
	}
}
