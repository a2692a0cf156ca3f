package storage

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// TestModel runs many short histories of a log directory with crashes.
//
//	CHRONIK_MODEL_SEED=n   run only the history with this seed
//	CHRONIK_MODEL_RUNS=n   run this many histories, or histories for this time (45s)
func TestModel(t *testing.T) {
	t.Parallel()
	runs, first := tries.Of(t, "CHRONIK_MODEL_RUNS", race.Some(60, 10)), uint64(1)
	cfg := modelConfig{steps: 120}
	if s := os.Getenv("CHRONIK_MODEL_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		runs = tries.Of(t, "CHRONIK_MODEL_RUNS", 1)
	}
	for n := range runs {
		seed := first + uint64(n)
		cfg.faults = seed%2 == 0
		var story []string
		cfg.say = func(format string, args ...any) { story = append(story, fmt.Sprintf(format, args...)) }
		if err := runModel(seed, cfg); err != nil {
			t.Errorf("%v (CHRONIK_MODEL_SEED=%d)", err, seed)
			for _, line := range story {
				t.Log(line)
			}
			break
		}
	}
}
