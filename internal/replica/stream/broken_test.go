//go:build breakrules

package stream

import (
	"testing"
	"testing/synctest"
)

// The walks find the absence of each of these rules.
func TestWalksNeedEveryRule(t *testing.T) {
	for name, r := range map[string]rule{"KeepDiverged": KeepDiverged, "trustBatches": trustBatches, "cutLeaders": cutLeaders} {
		t.Run(name, func(t *testing.T) {
			for seed := range walks(400) {
				var err error
				synctest.Test(t, func(t *testing.T) { err = newWalk(t, seed, r).run(120) })
				if err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no walk goes wrong without the rule")
		})
	}
}

// Each of these rules has a case that goes wrong without it.
func TestEveryRuleHasItsCase(t *testing.T) {
	for name, x := range map[string]struct {
		rule rule
		run  func(testing.TB, rule) error
	}{
		"resetAnything":   {resetAnything, shorterLeader},
		"ignoreEnds":      {ignoreEnds, failingFollower},
		"forgetProducers": {forgetProducers, func(t testing.TB, r rule) error { return beginsAgain(t, r, 10, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if x.run(t, x.rule) == nil {
					t.Error("nothing goes wrong without the rule")
				}
			})
		})
	}
}
