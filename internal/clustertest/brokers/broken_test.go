//go:build breakrules

package brokers

import (
	"os"
	"testing"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/replica/stream"
)

// without has a case for each rule whose absence random faults of whole brokers show within a few
// dozen histories. The walks of internal/clustertest/sim detect more: they are far shorter.
func without() map[string]func(remove bool) {
	return map[string]func(bool){
		"MoveDespiteELR":  func(remove bool) { set(&progress.Everywhere, progress.MoveDespiteELR, remove) },
		"KeepMissing":     func(remove bool) { set(&election.Everywhere, election.KeepMissing, remove) },
		"FenceWithoutELR": func(remove bool) { set(&election.Everywhere, election.FenceWithoutELR, remove) },
		"keepDiverged":    func(remove bool) { set(&stream.Everywhere, stream.KeepDiverged, remove) },
	}
}

// set sets a variable to a rule, or to none.
func set[R ~uint32](everywhere *R, rule R, remove bool) {
	if *everywhere = 0; remove {
		*everywhere = rule
	}
}

// If any one of the rules is removed, random faults must show a violation. CHRONIK_SIM_RULES is the
// largest number of histories.
func TestFaultsDetectEveryRemovedRule(t *testing.T) {
	limit := 100
	if v := os.Getenv("CHRONIK_SIM_RULES"); v != "" {
		limit = number(t, v)
	}
	for name, remove := range without() {
		t.Run(name, func(t *testing.T) {
			remove(true)
			defer remove(false)
			for seed := uint64(1); seed <= uint64(limit); seed++ {
				if list := problems(t, seed, false, func(_ *world, c *clients) { c.walk() }); len(list) > 0 {
					t.Logf("seed %d: %s", seed, list[0])
					return
				}
			}
			t.Errorf("nothing went wrong in %d histories without it", limit)
		})
	}
}
