package snapshots

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// A cluster in memory is a small heap with much garbage: half of the time went into its collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}
