//go:build !breakrules

package breakrules

import (
	"testing"
	"unsafe"
)

// An ordinary build cannot remove a rule: Removed has no fields.
func TestNoRuleCanBeTakenAway(t *testing.T) {
	b := Without(^uint64(0))
	if unsafe.Sizeof(b) != 0 || b.Has(^uint64(0)) {
		t.Errorf("switches of %d bytes", unsafe.Sizeof(b))
	}
}
