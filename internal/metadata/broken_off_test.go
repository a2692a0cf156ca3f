//go:build !breakrules

package metadata

import "testing"

// An ordinary build cannot remove a rule: has is constant.
func TestNoRuleCanBeTakenAway(t *testing.T) {
	if (broken{}).has(^Rule(0)) {
		t.Error("an ordinary build has switches")
	}
}
