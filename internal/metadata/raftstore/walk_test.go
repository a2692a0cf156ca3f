package raftstore

import (
	"os"
	"strconv"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/race"
)

// walks returns how many walks of a kind a test makes: CHRONIK_WALKS times as many if it is set.
func walks(n int) uint64 {
	if f, err := strconv.Atoi(os.Getenv("CHRONIK_WALKS")); err == nil {
		n *= f
	}
	return uint64(n)
}

// Faults of disks, processes and the network in random order: no acknowledged transaction is lost,
// no refused one appears, all members show the same at every revision, a term has one leader, and
// when the faults end the members agree.
func TestRandomFaultsLoseNothing(t *testing.T) {
	total := map[string]int{}
	acked := 0
	for _, c := range []struct {
		name   string
		voters int
		wipes  bool
		walks  int
	}{
		{"one", 1, false, race.Some(20, 4)}, {"three", 3, false, race.Some(60, 10)},
		{"five", 5, false, race.Some(15, 3)}, {"wiped", 3, true, race.Some(40, 8)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range walks(c.walks) {
				w := walk(t, seed, c.voters, 500, broken{}, c.wipes)
				if w.bad != nil {
					t.Fatalf("seed %d: %v", seed, w.bad)
				}
				acked += len(w.acked)
				for kind, n := range w.faults {
					total[kind] += n
				}
			}
		})
	}
	t.Logf("%d acknowledged, faults: %v", acked, total)
}

func TestSeedDeterminesTheWalk(t *testing.T) {
	a, b := walk(t, 5, 3, 300, broken{}, true), walk(t, 5, 3, 300, broken{}, true)
	if len(a.acked) == 0 || len(a.acked) != len(b.acked) || a.net.Losses != b.net.Losses || len(a.states) != len(b.states) {
		t.Errorf("one seed: %d acknowledged and %d lost, then %d and %d", len(a.acked), a.net.Losses, len(b.acked), b.net.Losses)
	}
}
