package brokers

import (
	"os"
	"runtime/debug"
	"testing"
)

// Three brokers in memory are a small heap with much garbage: a third of the time went into its
// collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
