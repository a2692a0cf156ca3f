package daemon

import (
	"context"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health/checks"
)

// A start waits for other brokers until it enters another phase.
func TestAStartThatWaitsSaysSo(t *testing.T) {
	b := &Broker{health: checks.Start(checks.Options{Log: zap.NewNop()}), log: zap.NewNop()}
	defer b.health.Stop(context.Background())
	if b.Waiting() {
		t.Error("it waits before it has begun")
	}
	b.waits("waiting for seeds")
	if !b.Waiting() {
		t.Error("it waits, and does not say so")
	}
	b.health.Enter("recovering logs")
	if b.Waiting() {
		t.Error("it still waits")
	}
}
