//go:build breakrules

package raftstore

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Each rule is taken away once; the walks must find its absence. The number of walks is several
// times what a first finding needs.
func TestWalksFindEachMissingRule(t *testing.T) {
	for name, c := range map[string]struct {
		rule  rule
		wipes bool
	}{
		"send before persist":       {sendBeforePersist, false},
		"shared member id":          {sharedMemberID, true},
		"decide before own term":    {decideBeforeOwnTerm, false},
		"conflict without revision": {conflictWithoutRevision, false},
		"trust election timeout":    {trustElectionTimeout, false},
		"ignore voters":             {ignoreVoters, false},
		"forget at start":           {forgetAtStart, false},
		"leader untouched":          {leaderUntouched, false},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 400
			for seed := range uint64(most) {
				if w := walk(t, seed, 3, 500, breakrules.Without(c.rule), c.wipes); w.bad != nil {
					t.Logf("seed %d: %v", seed, w.bad)
					return
				}
			}
			t.Errorf("%d walks without the rule, and no violation", most)
		})
	}
}
