package storage

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/race"
)

// TestModel runs many short histories of a log directory with crashes.
//
//	CHRONIK_MODEL_SEED=n   run only the history with this seed
//	CHRONIK_MODEL_RUNS=n   run this many histories
func TestModel(t *testing.T) {
	runs, first := race.Some(120, 10), uint64(1)
	cfg := modelConfig{steps: 120}
	if s := os.Getenv("CHRONIK_MODEL_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		runs = 1
	}
	if s := os.Getenv("CHRONIK_MODEL_RUNS"); s != "" {
		runs, _ = strconv.Atoi(s)
	}
	for seed := first; seed < first+uint64(runs); seed++ {
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
