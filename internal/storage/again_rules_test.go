//go:build breakrules

package storage

import "testing"

// Without the rule, a log that is offline seems to end where its segments do.
func TestTheRuleOfReadableEndsIsNeeded(t *testing.T) {
	if err := endsWhileOpenedLater(t, endsOffline); err == nil {
		t.Error("no read has found it")
	}
}
