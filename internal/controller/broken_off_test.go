//go:build !breakrules

package controller

import (
	"testing"
	"unsafe"
)

// An ordinary build cannot remove a rule: broken has no fields.
func TestNoRuleCanBeTakenAway(t *testing.T) {
	if n := unsafe.Sizeof(broken{}); n != 0 || (broken{}).has(^rule(0)) {
		t.Errorf("switches of %d bytes", n)
	}
}
