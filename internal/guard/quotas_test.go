package guard

import (
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
)

// The rate of the broker counts all listeners, that of a listener its own; the longer wait counts.
func TestConnectionRates(t *testing.T) {
	c := NewRates([]config.Listener{{Name: "a"}, {Name: "B"}})
	c.Set(&configdef.Connections{Rate: math.MaxInt32, Listeners: map[string]configdef.ListenerConnections{"b": {Rate: 1}}})
	for range 3 {
		if c.Take("a") != 0 {
			t.Error("a waits for b")
		}
	}
	if c.Take("B") != 0 || c.Take("B") <= 0 {
		t.Error("b does not wait")
	}
	c.Set(&configdef.Connections{Rate: 2})
	if c.Take("a") != 0 || c.Take("B") != 0 || c.Take("a") <= 0 {
		t.Error("the broker's rate does not count all listeners, or b waits at its former rate")
	}
}
