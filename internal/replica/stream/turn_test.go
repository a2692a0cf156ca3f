package stream

import (
	"testing"

	"github.com/chronik-io/chronik/internal/link/frame"
)

// The slots of each connection begin at one. What a stream did not tell a former connection must
// not end the slot that another stream has on this one: its leader would send, and the follower
// wait for an answer that it cannot tell from others.
func TestAnEndOfAFormerConnectionEndsNoSlot(t *testing.T) {
	for name, c := range map[string]struct {
		turn uint64
		ends int
	}{"a former connection": {1, 0}, "this connection": {2, 1}} {
		now := &following{part: &part{}}
		f := &follower{slots: map[uint32]*following{3: now}}
		f.turn.Store(2)
		x := &following{part: &part{}, from: f, state: stopped, turn: c.turn, end: frame.End{Slot: 3, Cause: frame.RoleChanged}}
		f.collect(x)
		if len(f.ends) != c.ends || (f.at(3) == now) != (c.ends == 0) {
			t.Errorf("%s: %d ends are sent, and slot 3 has %p instead of %p", name, len(f.ends), f.at(3), now)
		}
	}
}
