//go:build !breakrules

package stream

import (
	"testing"
	"unsafe"
)

func (o *Options) setRules(rule) {}

// An ordinary build cannot remove a rule: broken has no fields.
func TestNoRuleCanBeTakenAway(t *testing.T) {
	if (broken{}).has(^rule(0)) || unsafe.Sizeof(broken{}) != 0 {
		t.Error("an ordinary build has switches")
	}
}
