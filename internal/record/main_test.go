package record

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: the package starts no goroutine, and its codecs must not either.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
