package cleaner

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestKeyMapIsAMap compares KeyMap with Go's map until it is full.
func TestKeyMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Int64Range(0, 200<<10).Draw(t, "budget")
		m, want := NewKeyMap(budget), map[string]int64{}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		full := false
		for i := range rapid.Int64Range(0, 20000).Draw(t, "records") {
			k := []byte(fmt.Sprint(rng.IntN(10000)))
			_, known := want[string(k)]
			ok := m.Put(k, i)
			if !ok && known {
				t.Fatalf("no room for key %s, which is there", k)
			}
			if full = full || !ok; ok {
				want[string(k)] = i
			}
		}
		taken := int64(0)
		for _, x := range m.tables {
			taken += int64(len(x.slots)) * EntryBytes
		}
		if limit := max(budget, MinMapBytes); taken > limit || full && m.Len() < int(limit/EntryBytes)/4 {
			t.Fatalf("%d keys in %d bytes, the budget is %d", m.Len(), taken, limit)
		}
		if m.Len() != len(want) {
			t.Fatalf("%d keys, want %d", m.Len(), len(want))
		}
		for k, at := range want {
			if got, ok := m.Get([]byte(k)); !ok || got != at {
				t.Fatalf("key %s: %d %v, want %d", k, got, ok, at)
			}
		}
		if _, ok := m.Get([]byte("none")); ok {
			t.Fatal("a key that nobody put is there")
		}
	})
}

// TestKeyMapUsesItsBudget checks that a full map uses at least half of its budget.
func TestKeyMapUsesItsBudget(t *testing.T) {
	const budget = 4 << 20
	m, k := NewKeyMap(budget), make([]byte, 8)
	for i := uint64(0); ; i++ {
		if binary.BigEndian.PutUint64(k, i); !m.Put(k, int64(i)) {
			break
		}
	}
	if m.Len() < budget/EntryBytes/2 {
		t.Errorf("full with %d keys of %d slots", m.Len(), budget/EntryBytes)
	}
}
