package objects

import (
	"errors"
	"strings"
	"testing"
)

// An error names the whole character that a name must not have, not its first byte.
func TestRefusedNamesShowTheCharacter(t *testing.T) {
	for name, want := range map[string]string{
		"a/é":     `name "a/é" has 'é'`,
		"a/日本":    `name "a/日本" has '日'`,
		"a/x\xff": `name "a/x\xff" has '�'`,
		"A":       `name "A" has 'A'`,
	} {
		if err := CheckName(name); !errors.Is(err, ErrRefused) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}
