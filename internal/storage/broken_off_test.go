//go:build !breakrules

package storage

import (
	"testing"
	"unsafe"

	"github.com/chronik-io/chronik/internal/storage/journal"
)

// An ordinary build has no room to say that a rule is taken away, and none is.
func TestNoRuleCanBeTakenAway(t *testing.T) {
	if n := unsafe.Sizeof(broken{}) + unsafe.Sizeof(journal.Broken{}); n != 0 || (broken{}).has(^rule(0)) {
		t.Errorf("switches of %d bytes", n)
	}
}
