//go:build breakrules

package storage

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without the rule, a reader of a snapshot reads what compaction has left since.
func TestTheRuleOfHoldsIsNeeded(t *testing.T) {
	if err := compactHeld(t, broken{rules: breakrules.Without(looseHolds)}); err == nil {
		t.Error("the log has not changed")
	}
}
