//go:build breakrules

package brokers

import (
	"os"
	"testing"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/replica/stream"
)

// removal is a rule that a test removes.
type removal struct {
	remove func(remove bool)
	kind   kind // of the histories
	// run is a history that shows the absence of the rule; random faults do if it is nil.
	run func(w *world, c *clients)
}

// without has a case for each rule whose absence histories of whole brokers show within a few
// dozen. The walks of internal/testing/sim detect more: they are far shorter.
func without() map[string]removal {
	inProgress := func(r progress.Rule) func(bool) { return func(remove bool) { set(&progress.Everywhere, r, remove) } }
	inElection := func(r election.Rule) func(bool) { return func(remove bool) { set(&election.Everywhere, r, remove) } }
	inController := func(remove bool) { set(&controller.Everywhere, controller.TrustAnswers, remove) }
	inStream := func(remove bool) { set(&stream.Everywhere, stream.KeepDiverged, remove) }
	return map[string]removal{
		"trustAnswers": {remove: inController, kind: kind{brokers: 4}, run: undialed},
		"KeepUnable": {remove: func(remove bool) { set(&controller.Everywhere, controller.KeepUnable, remove) },
			run: failsForSeconds(erring, 1)},
		"DeleteAlone":     {remove: inProgress(progress.DeleteAlone), run: deletedAlone},
		"NoGap":           {remove: func(remove bool) { set(&metadata.Everywhere, metadata.NoGap, remove) }, run: restoredTwice},
		"MoveDespiteELR":  {remove: inProgress(progress.MoveDespiteELR)},
		"KeepMissing":     {remove: inElection(election.KeepMissing)},
		"FenceWithoutELR": {remove: inElection(election.FenceWithoutELR)},
		"keepDiverged":    {remove: inStream},
		"KeepLossy":       {remove: inElection(election.KeepLossy), kind: kind{profile: "os"}},
		"ForgetLoss":      {remove: inElection(election.ForgetLoss), kind: kind{profile: "os", brokers: 1}, run: powerFails},
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
	for name, r := range without() {
		t.Run(name, func(t *testing.T) {
			r.remove(true)
			defer r.remove(false)
			if r.run == nil {
				r.run = func(_ *world, c *clients) { c.walk() }
			}
			for seed := uint64(1); seed <= uint64(limit); seed++ {
				if list := problems(t, seed, r.kind, r.run); len(list) > 0 {
					t.Logf("seed %d: %s", seed, list[0])
					return
				}
			}
			t.Errorf("nothing went wrong in %d histories without it", limit)
		})
	}
}
