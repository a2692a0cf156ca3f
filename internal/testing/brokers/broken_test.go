//go:build breakrules

package brokers

import (
	"os"
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/replica/stream"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
)

// removal is a rule that a test removes.
type removal struct {
	remove func() (restore func())
	kind   kind // of the histories
	// run is a history that shows the absence of the rule; random faults do if it is nil.
	run func(w *world, c *clients)
}

// without has a case for each rule whose absence histories of whole brokers show within a few
// dozen. The walks of internal/testing/sim detect more: they are far shorter.
func without() map[string]removal {
	return map[string]removal{
		"TrustAnswers":    {remove: everywhere(controller.TrustAnswers), kind: kind{brokers: 4}, run: undialed},
		"KeepUnable":      {remove: everywhere(controller.KeepUnable), run: failsForSeconds(erring, 1)},
		"DeleteAlone":     {remove: everywhere(progress.DeleteAlone), run: deletedAlone},
		"NoGap":           {remove: everywhere(metadata.NoGap), run: restoredTwice},
		"MoveDespiteELR":  {remove: everywhere(progress.MoveDespiteELR)},
		"KeepMissing":     {remove: everywhere(election.KeepMissing)},
		"FenceWithoutELR": {remove: everywhere(election.FenceWithoutELR)},
		"KeepDiverged":    {remove: everywhere(stream.KeepDiverged)},
		"KeepLossy":       {remove: everywhere(election.KeepLossy), kind: kind{profile: "os"}},
		"TakeHeld":        {remove: everywhere(window.TakeHeld)},
		"ArchiveUncopied": {remove: everywhere(window.ArchiveUncopied)},
		"UncountReleased": {remove: everywhere(window.UncountReleased)},
		"GapsArchived":    {remove: everywhere(window.GapsArchived)},
		"LeadAnyEpoch":    {remove: everywhere(shareleader.LeadAnyEpoch)},
		"ShowFrozen":      {remove: everywhere(replica.ShowFrozen), kind: archived, run: chained},
		"ForgetLoss":      {remove: everywhere(election.ForgetLoss), kind: kind{profile: "os", brokers: 1}, run: powerFails},
	}
}

// everywhere returns a function that removes a rule in all of the process.
func everywhere[R breakrules.Rule](rule R) func() (restore func()) {
	return func() func() { return breakrules.Everywhere(rule) }
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
			defer r.remove()()
			if r.run == nil {
				r.run, r.kind.busy = func(_ *world, c *clients) { c.walk() }, true
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
