package memory

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// For any configuration the budgets leave most of the memory to other uses, unless they reach their
// minimum; if the configured values fit, they are used.
func TestBudgetsFitIntoTheMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.Int64Range(1<<20, 1<<40).Draw(t, "memory")
		profile := rapid.SampledFrom(configdef.ProduceProfiles()).Draw(t, "profile")
		dirs := rapid.IntRange(1, 20).Draw(t, "dirs")
		keys := rapid.Int64Range(1<<20, 1<<32).Draw(t, "keys")
		wanted, cut := Divide(memory, profile, dirs, keys)
		if wanted.Produce != profile.ProduceBytes || wanted.Deferred != profile.DeferredBytes || wanted.Keys != keys {
			t.Fatalf("wanted %+v", wanted)
		}
		fits := float64(wanted.Sum(dirs)) <= spendable(memory)
		if fits != (cut == wanted) {
			t.Fatalf("wanted %+v, got %+v of %d", wanted, cut, memory)
		}
		if most := spendable(memory) + float64(9+dirs)*leastBudget; float64(cut.Sum(dirs)) > most {
			t.Fatalf("%+v are %d of %d", cut, cut.Sum(dirs), memory)
		}
		if cut.Decoded < 4<<20 || cut.Decoded > 64<<20 || cut.Decoded > max(memory/16, 4<<20) {
			t.Fatalf("%d bytes for a decoded request, of %d", cut.Decoded, memory)
		}
		for _, n := range []int64{cut.Produce, cut.Connection, cut.Other, cut.Answers, cut.Parked, cut.Deferred, cut.Keys,
			cut.Members, cut.Sessions} {
			if n < leastBudget {
				t.Fatalf("%+v", cut)
			}
		}
	})
}

func TestBudgetsIfTheMemoryIsUnknown(t *testing.T) {
	profile, err := configdef.LookupProduceProfile("balanced")
	must.OK(t, err)
	wanted, cut := Divide(0, profile, 1, 5)
	if wanted != cut || cut.Produce != profile.ProduceBytes || cut.Answers == 0 || cut.Parked == 0 || cut.Members == 0 ||
		cut.Sessions == 0 ||
		cut.Decoded == 0 ||
		cut.Keys != 5 {
		t.Errorf("%+v, %+v", wanted, cut)
	}
}

// In a container of 64 MiB, as in `make hostile-soak`, the fixed part is a third of the memory.
func TestBudgetsOfASmallContainer(t *testing.T) {
	profile, err := configdef.LookupProduceProfile("balanced")
	must.OK(t, err)
	_, cut := Divide(64<<20, profile, 1, 128<<20)
	if n := cut.Sum(1); n > 20<<20 {
		t.Errorf("%+v are %d bytes of 64 MiB", cut, n)
	}
}

// Idle connections leave three quarters of the memory, whatever the limit of descriptors is.
func TestConnectionsKnowTheMemory(t *testing.T) {
	for memory, want := range map[int64]int32{0: math.MaxInt32, 1: 1, 320 << 20: 3413, 8 << 30: 87_381, 1 << 60: math.MaxInt32} {
		if got := Connections(memory); got != want {
			t.Errorf("%d bytes: %d connections, want %d", memory, got, want)
		}
	}
}
