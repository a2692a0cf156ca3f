//go:build breakrules

package sharestate

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Without any one of the rules, some walk goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, r := range map[string]struct {
		rule    Rule
		cuts    window.Rule
		windows window.Rule
		unheld  bool
		first   uint64 // the first walk, one that detects the absence; 0: one of the first does
	}{
		"AnyLeader":         {rule: AnyLeader},
		"RaiseLater":        {rule: RaiseLater},
		"AnyCreation":       {rule: AnyCreation, first: 111},
		"RepeatCreation":    {rule: RepeatCreation, first: 522},
		"TakeLower":         {rule: TakeLower, first: 144},
		"MoveBack":          {rule: MoveBack, first: 82},
		"CutLater":          {rule: CutLater, first: 58},
		"CutAltered":        {rule: CutAltered},
		"OpenFormer":        {rule: OpenFormer, first: 611},
		"OpenStale":         {rule: OpenStale, first: 73},
		"StartLater":        {rule: StartLater, first: 113},
		"PartialSnapshot":   {rule: PartialSnapshot, first: 592},
		"PruneIdle":         {rule: PruneIdle},
		"ReplaceExisting":   {rule: ReplaceExisting},
		"ServeIncomplete":   {rule: ServeIncomplete},
		"FormerCoordinator": {rule: FormerCoordinator},
		"LaterCoordinator":  {rule: LaterCoordinator},
		"KeepCutMarks":      {cuts: window.KeepCutMarks, first: 679},
		"GapsArchived":      {windows: window.GapsArchived, first: 127},
		"AnyMember":         {windows: window.AnyMember},
		"AnswerRepetition":  {windows: window.AnswerRepetition},
		"AnswerBelowStart":  {windows: window.AnswerBelowStart},
		"UncountReleased":   {windows: window.UncountReleased},
		"SecondWrite":       {windows: window.SecondWrite},
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
			for seed := r.first; seed < r.first+2000; seed++ {
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

// A former leader opens the state between the peek and the open of the next one. The cut of that
// open does not know what the log of the former leader had.
func TestRuleOpenOutdatedHasItsTest(t *testing.T) {
	for _, x := range []struct {
		broken Broken
		want   *kerr.Error
		leader int32
	}{{want: kerr.FencedLeaderEpoch, leader: 2}, {broken: breakrules.Without(OpenOutdated), leader: 3}} {
		d := newDesk(config())
		d.cfg.Broken = x.broken
		d.load(0)
		h := history{t, d}
		h.init(1, 0, nil)
		h.open(h.opens(1, -1), nil)
		next, former := h.opens(3, 100), h.opens(2, 4)
		h.open(former, nil)
		h.write(of(former, 0, mark(4, 9, window.Acknowledged, 1)), nil)
		h.open(next, x.want)
		h.stores(0, mark(4, 9, window.Acknowledged, 1))
		if got := h.s.states[keyOf(0)].leader; got != x.leader {
			t.Errorf("the recorded leader epoch is %d, want %d", got, x.leader)
		}
	}
}

// A late copy of an open whose leader epoch a tool had recorded before.
func TestRuleCutOwnHasItsTest(t *testing.T) {
	for _, x := range []struct {
		broken Broken
		want   []window.Mark
	}{{want: []window.Mark{mark(5, 10, window.Acknowledged, 1)}}, {broken: breakrules.Without(CutOwn)}} {
		d := newDesk(config())
		d.cfg.Broken = x.broken
		d.load(0)
		h := history{t, d}
		h.init(1, 0, nil)
		h.open(h.opens(1, -1), nil)
		tool := h.opens(2, -1)
		tool.Epochs = epochs.Cache{}
		h.topics[keyOf(0).Topic] = 2 // a tool may name no later epoch
		h.open(tool, nil)
		o := h.opens(2, 5)
		h.open(o, nil)
		h.write(of(o, 4, mark(5, 10, window.Acknowledged, 1)), nil)
		h.open(o, nil)
		h.stores(4, x.want...)
	}
}

// Walks detect the absence of this rule once in some 100,000 times.
func TestEveryRuleHasItsTest(t *testing.T) {
	d := newDesk(config())
	d.cfg.Broken = breakrules.Without(IgnoreOutranked)
	d.load(0)
	h := history{t, d}
	h.init(1, 0, nil)
	o := h.opens(1, -1)
	h.open(o, nil)
	h.write(of(o, 0, mark(5, 5, window.Available, 2)), nil)
	h.write(of(o, 0, mark(5, 5, window.Acknowledged, 1)), nil)
	h.stores(0, mark(5, 5, window.Available, 2)) // an acknowledgement is answered that is not stored
}
