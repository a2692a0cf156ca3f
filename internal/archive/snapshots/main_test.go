package snapshots

import (
	"runtime"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/race"
)

// A cluster in memory is a small heap with much garbage: half of the time went into its collection.
// Virtual time stands while a goroutine runs, so that a second processor has little to run: to pass
// goroutines to it and back took a third of the rest. The race detector sees both processors.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	if !race.Detector {
		runtime.GOMAXPROCS(1)
	}
	goleak.VerifyTestMain(m)
}
