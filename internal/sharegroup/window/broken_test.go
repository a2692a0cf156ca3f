//go:build breakrules

package window

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without any one of the rules, some walk goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, rule := range map[string]Rule{
		"AnswerRepetition": AnswerRepetition, "AnswerBelowStart": AnswerBelowStart, "GapsArchived": GapsArchived,
		"KeepCutMarks": KeepCutMarks, "AnyMember": AnyMember, "FirstDeadline": FirstDeadline, "AckKeepsLock": AckKeepsLock,
		"DeliverAgain": DeliverAgain, "KeepStart": KeepStart, "ForgetWaiting": ForgetWaiting,
		"UncountReleased": UncountReleased, "CountAcquired": CountAcquired,
		"ApplyPart": ApplyPart, "ServeRefused": ServeRefused, "TakeHeld": TakeHeld, "SecondWrite": SecondWrite,
		"ArchiveUncopied": ArchiveUncopied, "MixPoison": MixPoison, "RetryAtOnce": RetryAtOnce,
		"ForgetDeliveries": ForgetDeliveries,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(500) {
				bad := newWalk(seeded(seed), breakrules.Without(rule)).run(400)
				if bad == "" {
					continue
				}
				t.Logf("walk %d: %s", seed, bad)
				if bad := newWalk(seeded(seed), Broken{}).run(400); bad != "" {
					t.Errorf("walk %d goes wrong with all rules: %s", seed, bad)
				}
				return
			}
			t.Error("no walk detects its absence")
		})
	}
}

// Walks detect the absence of this rule once in 28,000 times.
func TestEveryRuleHasItsTest(t *testing.T) {
	h, batches := fullWindow(t, breakrules.Without(SkipRest))
	if got := h.take(1, 0, 9, batches...); len(got) != 0 || h.Stats().Offsets[Archived] == 0 {
		t.Errorf("SkipRest: records of the rest are delivered: %v", got)
	}
}
