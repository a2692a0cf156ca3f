package storage

import (
	"os"
	"strconv"
	"testing"
)

// TestModel lives many short histories of a log directory with crashes.
//
//	CHRONIK_MODEL_SEED=n   only the history of that seed, told step by step
//	CHRONIK_MODEL_RUNS=n   that many histories
func TestModel(t *testing.T) {
	runs, first := 400, uint64(1)
	if s := os.Getenv("CHRONIK_MODEL_RUNS"); s != "" {
		runs, _ = strconv.Atoi(s)
	}
	cfg := modelConfig{steps: 120}
	if s := os.Getenv("CHRONIK_MODEL_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		runs, cfg.say = 1, t.Logf
	}
	for seed := first; seed < first+uint64(runs); seed++ {
		cfg.faults = seed%2 == 0
		if err := runModel(seed, cfg); err != nil {
			t.Errorf("%v (CHRONIK_MODEL_SEED=%d)", err, seed)
			if t.Failed() {
				break
			}
		}
	}
}
