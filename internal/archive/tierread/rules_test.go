//go:build breakrules

package tierread

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without a rule, damage reaches a caller, or each caller begins a transfer of its own.
func TestEveryRuleIsNeeded(t *testing.T) {
	if err := damaged(t, breakrules.Without(TrustChunks)); err == nil || err.Error() != "other bytes" {
		t.Errorf("without TrustChunks, damage is found: %v", err)
	}
	if n := shared(t, breakrules.Without(TransferAlone)); n <= 3 {
		t.Errorf("without TransferAlone, a hundred callers need %d calls", n)
	}
}
