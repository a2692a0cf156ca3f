package sim

import (
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// walks are those of a test: few, or CHRONIK_SIM_WALKS of each config.
func walks(t *testing.T, few int) iter.Seq[int] {
	t.Helper()
	return tries.Of(t, "CHRONIK_SIM_WALKS", race.Some(few, few/5))
}

// firstSeed returns the seed of the first walk, CHRONIK_SIM_SEED if it is set.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("CHRONIK_SIM_SEED")
	if s == "" {
		return 1
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("CHRONIK_SIM_SEED: %v", err)
	}
	return n
}

var configs = map[string]config{
	"three replicas":       {replicas: 3, steps: 500},
	"five replicas":        {replicas: 5, steps: 900},
	"unclean elections":    {replicas: 3, steps: 500, unclean: true},
	"moving replicas":      {replicas: 3, nodes: 5, steps: 700},
	"one or more of four":  {replicas: 1, nodes: 4, steps: 700},
	"moving, many losses":  {replicas: 3, nodes: 4, steps: 500, unclean: true},
	"restored metadata":    {replicas: 3, steps: 500, restores: true},
	"one, restored":        {replicas: 1, steps: 500, restores: true},
	"five, many elections": {replicas: 5, steps: 500, unclean: true},
}

// No walk violates a promise: an acknowledged record is on every member of ISR and ELR (C1), what a
// client was shown stays (C2), an epoch has one leader and one history (C3, C4), high watermarks do
// not fall (C5), a value is stored once, and the cluster recovers when the faults end.
func TestWalks(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stats := map[string]int{}
			first := firstSeed(t)
			for n := range walks(t, 300) {
				seed := first + uint64(n)
				w := walk(seed, cfg)
				for k, v := range w.stats {
					stats[k] += v
				}
				if w.fault != "" {
					cfg.trace = true
					w = walk(seed, cfg)
					t.Fatalf("CHRONIK_SIM_SEED=%d: %s\n%s", seed, w.fault, strings.Join(w.lines, "\n"))
				}
			}
			for _, k := range slices.Sorted(maps.Keys(stats)) {
				t.Logf("%8d %s", stats[k], k)
			}
		})
	}
}

// The seed and the config determine a walk to the last line of its trace.
func TestASeedDeterminesAWalk(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.trace = true
			// A single walk may be short: the only replica may be drained for most of it.
			longest := 0
			for seed := range walks(t, 25) {
				a, b := walk(uint64(seed), cfg), walk(uint64(seed), cfg)
				longest = max(longest, len(a.lines))
				for i, line := range a.lines {
					if i >= len(b.lines) || line != b.lines[i] {
						t.Fatalf("seed %d: line %d differs: %q", seed, i, line)
					}
				}
				if len(a.lines) != len(b.lines) || a.fault != b.fault || !maps.Equal(a.stats, b.stats) {
					t.Fatalf("seed %d: %d lines, %q, %v, and then %d lines, %q, %v",
						seed, len(a.lines), a.fault, a.stats, len(b.lines), b.fault, b.stats)
				}
			}
			if longest < 20 {
				t.Fatalf("the longest trace has %d lines", longest)
			}
		})
	}
}
