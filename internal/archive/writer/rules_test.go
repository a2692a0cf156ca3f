//go:build breakrules

package writer

import (
	"testing"

	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without a rule, a snapshot has what no leader had at its cut.
func TestEveryRuleIsNeeded(t *testing.T) {
	if err := successor(t, breakrules.Without(KeepVoid)); err == nil {
		t.Error("without KeepVoid, the job is void")
	}
	if err := undone(t, breakrules.Without(TrustKnown), 10<<10); err == nil {
		t.Error("without TrustKnown, the snapshot is whole")
	}
	for what, deletion := range deletions {
		if err := afterwards(t, breakrules.Without(UseDeleted), deletion); err == nil {
			t.Errorf("without UseDeleted, the snapshot is whole after %s", what)
		}
	}
	restore := breakrules.Everywhere(upload.TrustFormer)
	defer restore()
	if err := undone(t, breakrules.Removed[Rule]{}, 10<<10); err == nil {
		t.Error("without TrustFormer, the snapshot is whole")
	}
}
