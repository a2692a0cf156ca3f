//go:build breakrules

package group

import (
	"math/rand/v2"
	"testing"
)

// Without any one of the rules, some walk goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, rule := range map[string]Rule{
		"OverwriteNewer": OverwriteNewer, "ReadUnstable": ReadUnstable, "AnyEpoch": AnyEpoch, "NeverAsk": NeverAsk,
		"KeepGuards and AskAgain": KeepGuards | AskAgain, // the former alone is covered by the latter, and by the epochs of version 5
		"AnyPermit":               AnyPermit, "AnyCoordinator": AnyCoordinator, "ForgetMarkers": ForgetMarkers,
		"AskAgain": AskAgain, "DeletePending": DeletePending, "ForgetTransaction": ForgetTransaction,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				if bad := newWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, Broken{rule}).run(400); len(bad) > 0 {
					t.Logf("walk %d: %q", seed, bad)
					if bad := newWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, Broken{}).run(400); len(bad) > 0 {
						t.Errorf("walk %d goes wrong with all rules: %q", seed, bad)
					}
					return
				}
			}
			t.Error("no walk detects its absence")
		})
	}
}
