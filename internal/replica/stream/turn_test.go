package stream

import (
	"errors"
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
)

// A batch whose last offset is no number, or the last one, ends beyond each frame.
func TestABatchBeyondTheLastOffsetIsDamaged(t *testing.T) {
	for base, want := range map[int64]error{5: nil, math.MaxInt64 - 3: nil, math.MaxInt64 - 2: storage.ErrCorrupt,
		math.MaxInt64 - 1: storage.ErrCorrupt, math.MaxInt64: storage.ErrCorrupt} {
		made := record.NewBuilder(record.BatchOptions{BaseOffset: base})
		for range 3 {
			made.Append(0, nil, []byte("v"), nil)
		}
		b, err := made.Build()
		must(t, err)
		end, err := checkBatches(frame.Data{PrevEnd: 5, NextEnd: math.MaxInt64}, b, false)
		if !errors.Is(err, want) || want == nil && end != base+3 {
			t.Errorf("at %d: it ends at %d, %v", base, end, err)
		}
	}
}

// A leader that never ends the state of its producers loses its connection.
func TestTheStateOfProducersIsBounded(t *testing.T) {
	x := &following{part: &part{}, slot: 3}
	f := &follower{slots: map[uint32]*following{3: x}}
	p := append(frame.Producers{Slot: 3}.AppendTo(nil), make([]byte, 1<<20)...)
	for range storage.MaxProducers >> 20 {
		must(t, f.producers(p))
	}
	if err := f.producers(p); !errors.Is(err, frame.ErrMalformed) || len(x.known) != storage.MaxProducers {
		t.Errorf("%d bytes: %v", len(x.known), err)
	}
}

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
