//go:build breakrules

package tier

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without a rule, readers get what was not acknowledged, or lack what was.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, x := range map[string]struct {
		rule Rule
		test func(*testing.T, breakrules.Removed[Rule]) error
	}{
		"TrustCopy":     {TrustCopy, reelected},
		"AnyCollection": {AnyCollection, collected},
		"CopyUnstable":  {CopyUnstable, unstable},
		"CopyVolatile":  {CopyVolatile, volatile},
		"TrustNames":    {TrustNames, relisted},
	} {
		t.Run(name, func(t *testing.T) {
			if err := x.test(t, breakrules.Without(x.rule)); err == nil {
				t.Error("without the rule, the records are whole")
			}
		})
	}
}
