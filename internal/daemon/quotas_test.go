package daemon

import (
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/daemon/config"
)

// The rate of the broker counts all listeners, that of a listener its own; the longer wait counts.
func TestConnectionRates(t *testing.T) {
	listeners := []config.Listener{{Name: "a"}, {Name: "b", MaxConnectionRate: 1}}
	if connectionRates(listeners[:1], math.MaxInt32) != nil {
		t.Error("rates without a limit")
	}
	own := connectionRates(listeners, math.MaxInt32)
	for range 3 {
		if own("a") != 0 {
			t.Error("a waits for b")
		}
	}
	if own("b") != 0 || own("b") <= 0 {
		t.Error("b does not wait")
	}
	all := connectionRates(listeners, 2)
	if all("a") != 0 || all("b") != 0 || all("a") <= 0 {
		t.Error("the broker's rate does not count all listeners")
	}
}
