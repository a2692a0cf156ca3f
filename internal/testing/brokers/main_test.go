package brokers

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/race"
)

// Three brokers in memory are a small heap with much garbage: a third of the time went into its
// collection. Virtual time stands while a goroutine runs, so that a second processor has little to
// run: to pass goroutines to it and back took another third, and other packages can use it. The
// race detector sees more if goroutines run at once.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	if !race.Detector {
		runtime.GOMAXPROCS(1)
	}
	os.Exit(m.Run())
}
