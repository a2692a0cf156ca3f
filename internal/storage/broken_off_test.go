//go:build !breakrules

package storage

import (
	"testing"
	"unsafe"

	"github.com/chronik-io/chronik/internal/storage/journal"
)

// An ordinary build cannot remove a rule: broken has no fields.
func TestNoRuleCanBeTakenAway(t *testing.T) {
	if n := unsafe.Sizeof(broken{}) + unsafe.Sizeof(journal.Broken{}); n != 0 || (broken{}).has(^rule(0)) {
		t.Errorf("switches of %d bytes", n)
	}
}
