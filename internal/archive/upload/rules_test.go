//go:build breakrules

package upload

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without the rule, what an archive has above an election that undid it stays in snapshots.
func TestEveryRuleIsNeeded(t *testing.T) {
	if err := undone(t, breakrules.Without(TrustFormer)); err == nil {
		t.Error("without TrustFormer, a snapshot has the log")
	}
}
