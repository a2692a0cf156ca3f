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
	if n := earlyWritten(t, Broken{Rules: WrittenFirst}); n != 3 {
		t.Errorf("%d entries are reported before the datasync", n)
	}
	if entriesOfTheLimit(t, Broken{Rules: CountCurrent}) == "" {
		t.Error("the limit may count the current file")
	}
	for _, r := range []Rule{NoSkip, Overtake, KeepPart} {
		var err error
		for seed := range uint64(20 * piecesRuns) { // a busy machine orders the pieces in fewer ways
			if err = piecesRun(t, seed, Broken{Rules: r}); err != nil {
				t.Logf("without rule %d, seed %d: %v", r, seed, err)
				break
			}
		}
		if err == nil {
			t.Errorf("no run fails without rule %d", r)
		}
	}
}
