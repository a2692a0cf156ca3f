//go:build breakrules

package controller

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Each rule is removed once; the walks must find its absence.
func TestSuccessionsFindEachMissingRule(t *testing.T) {
	for name, r := range map[string]rule{
		"lease to the end": leaseToTheEnd, "ignore until": ignoreUntil, "equal clocks": equalClocks,
		"trust answers": TrustAnswers, "activate unproven": activateUnproven, "answer ended": answerEnded, "refuse unheard": refuseUnheard,
	} {
		t.Run(name, func(t *testing.T) {
			const most = 100
			for seed := range uint64(most) {
				if err := newSuccession(seed, breakrules.Without(r)).run(2*time.Minute, breakrules.Without(r)); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("%d walks without the rule, and no violation", most)
		})
	}
}
