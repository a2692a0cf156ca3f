//go:build breakrules

package sharestate

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// Without any one of the rules, some walk goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, r := range map[string]struct {
		rule    Rule
		cuts    window.Rule
		windows window.Rule
		unheld  bool
	}{
		"AnyLeader":        {rule: AnyLeader},
		"RaiseLater":       {rule: RaiseLater},
		"AnyCreation":      {rule: AnyCreation},
		"RepeatCreation":   {rule: RepeatCreation},
		"TakeLower":        {rule: TakeLower},
		"MoveBack":         {rule: MoveBack},
		"IgnoreOutranked":  {rule: IgnoreOutranked},
		"CutLater":         {rule: CutLater},
		"CutOwn":           {rule: CutOwn},
		"CutAltered":       {rule: CutAltered},
		"OpenOutdated":     {rule: OpenOutdated},
		"OpenFormer":       {rule: OpenFormer},
		"OpenStale":        {rule: OpenStale},
		"StartLater":       {rule: StartLater},
		"PartialSnapshot":  {rule: PartialSnapshot},
		"PruneIdle":        {rule: PruneIdle},
		"ReplaceExisting":  {rule: ReplaceExisting},
		"ServeIncomplete":  {rule: ServeIncomplete},
		"KeepCutMarks":     {cuts: window.KeepCutMarks},
		"GapsArchived":     {windows: window.GapsArchived},
		"AnyMember":        {windows: window.AnyMember},
		"AnswerRepetition": {windows: window.AnswerRepetition},
		"AnswerBelowStart": {windows: window.AnswerBelowStart},
		"CountAcquired":    {windows: window.CountAcquired},
		"UncountReleased":  {windows: window.UncountReleased},
		"SecondWrite":      {windows: window.SecondWrite},
		"ServeRefused":     {windows: window.ServeRefused},
		"answers leave before their records are committed": {unheld: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(seed uint64, removed bool) string {
				cfg := config()
				if removed {
					cfg.Broken, cfg.Cuts = breakrules.Without(r.rule), breakrules.Without(r.cuts)
				}
				x := newWalk(seeded(seed), cfg)
				if removed {
					x.windows, x.desk.unheld = breakrules.Without(r.windows), r.unheld
				}
				return x.run(1500)
			}
			for seed := range uint64(20_000) {
				bad := run(seed, true)
				if bad == "" {
					continue
				}
				t.Logf("walk %d: %s", seed, bad)
				if bad := run(seed, false); bad != "" {
					t.Errorf("walk %d goes wrong with all rules: %s", seed, bad)
				}
				return
			}
			t.Error("no walk detects its absence")
		})
	}
}
