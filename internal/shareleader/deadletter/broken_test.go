//go:build breakrules

package deadletter

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without any one of the rules, some walk goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, rule := range map[string]Rule{
		"AppendAnyway": AppendAnyway, "BelieveAll": BelieveAll, "AskEarly": AskEarly,
		"EpochInID": EpochInID, "BelieveBelow": BelieveBelow,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3000) {
				bad := newWalk(seed, breakrules.Without(rule)).run(300)
				if bad == "" {
					continue
				}
				t.Logf("walk %d: %s", seed, bad)
				if bad := newWalk(seed, Broken{}).run(300); bad != "" {
					t.Errorf("walk %d goes wrong with all rules: %s", seed, bad)
				}
				return
			}
			t.Error("no walk detects its absence")
		})
	}
}
