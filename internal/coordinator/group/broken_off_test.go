//go:build !breakrules

package group

import (
	"testing"
	"unsafe"
)

// An ordinary build cannot remove a rule: Broken has no fields.
func TestNoRuleCanBeTakenAway(t *testing.T) {
	if (Broken{}).has(^Rule(0)) || unsafe.Sizeof(Broken{}) != 0 {
		t.Error("an ordinary build has switches")
	}
}
