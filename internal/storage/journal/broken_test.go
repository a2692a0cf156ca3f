//go:build breakrules

package journal

import (
	"errors"
	"testing"
)

// Each of these rules has a test of its own, which must fail without the rule.
func TestEveryRuleHasItsTest(t *testing.T) {
	if !staleFrames(t, Broken{Rules: IgnoreSalt}) {
		t.Error("no stale frame came back without the salt")
	}
	if err := scanDamaged(t, Broken{Rules: IgnoreDamage}); errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}
