package restore

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// Disks and stores in memory are a small heap with much garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}
