package cluster

import (
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// The messages below warnings are left out, at any level that the log has later.
func TestOnlyWarningsOfALoneBroker(t *testing.T) {
	level := zap.NewAtomicLevelAt(zap.ErrorLevel)
	core, seen := observer.New(level)
	log := zap.New(core).WithOptions(zap.WrapCore(func(of zapcore.Core) zapcore.Core { return warnings{of} })).With(zap.Int("a", 1))
	for range 2 {
		log.Info("info")
		log.Warn("warn")
		log.Error("error")
		level.SetLevel(zap.DebugLevel)
	}
	var got []string
	for _, e := range seen.All() {
		got = append(got, e.Message)
	}
	if want := []string{"error", "warn", "error"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
