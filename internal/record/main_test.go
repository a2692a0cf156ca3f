package record

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks for leaked goroutines: neither the package nor its codecs may start any.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
