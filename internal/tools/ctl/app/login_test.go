package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func resolved(t *testing.T, flags map[string]string) contexts.Settings {
	t.Helper()
	s, err := contexts.Resolve(contexts.Input{Flags: flags, NoFile: true, Getenv: func(string) string { return "" }})
	must.OK(t, err)
	return s
}

// The first message of each mechanism is as its RFC defines, with the user and password from the
// settings.
func TestSASLMechanisms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	must.OK(t, os.WriteFile(file, []byte("secret\r\nnot this\n"), 0o600))
	for name, begin := range map[string]string{"PLAIN": "\x00me\x00secret", "SCRAM-SHA-256": "n,,n=me,r=", "SCRAM-SHA-512": "n,,n=me,r=",
		"OAUTHBEARER": "n,,\x01auth=Bearer secret"} {
		m, err := mechanism(resolved(t, map[string]string{contexts.SASL: name, contexts.SASLUser: "me", contexts.SASLPasswordFile: file}))
		if err != nil || m.Name() != name {
			t.Fatalf("%s: %v, %v", name, m, err)
		}
		if _, first, err := m.Authenticate(context.Background(), "host"); err != nil || !strings.HasPrefix(string(first), begin) {
			t.Errorf("%s begins with %q, %v", name, first, err)
		}
	}
	if m, err := mechanism(resolved(t, nil)); m != nil || err != nil {
		t.Errorf("without sasl: %v, %v", m, err)
	}
}
