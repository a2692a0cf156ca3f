//go:build breakrules

package txn

import (
	"math/rand/v2"
	"testing"
)

// Without any one of the rules, some walk goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, r := range map[string]struct {
		rule    Rule
		without func(*walk)
		kind    func(*walk) // what walks detect it
		first   uint64      // the first walk: for rare cases one that detects the absence
	}{
		"CompleteEarly":                      {rule: CompleteEarly},
		"CountAnyAnswer":                     {rule: CountAnyAnswer, first: 997},
		"UnknownIsDone":                      {rule: UnknownIsDone},
		"AnswerFromCache":                    {rule: AnswerFromCache, first: 31700},
		"AddFromCache":                       {rule: AddFromCache},
		"KeepFlush":                          {rule: KeepFlush, first: 5298},
		"RepeatMarkers":                      {rule: RepeatMarkers},
		"KeepEpoch":                          {rule: KeepEpoch},
		"FenceWithoutEnd":                    {rule: FenceWithoutEnd},
		"AnyEndEpoch":                        {rule: AnyEndEpoch, first: 700},
		"NeverTimeOut":                       {rule: NeverTimeOut},
		"TimeOutSameEpoch":                   {rule: TimeOutSameEpoch, first: 3710},
		"WrapEpoch":                          {rule: WrapEpoch},
		"SkipFlush":                          {rule: SkipFlush},
		"IgnoreLoss":                         {rule: IgnoreLoss},
		"ForgetMarkers":                      {rule: ForgetMarkers},
		"AddUnknown":                         {rule: AddUnknown},
		"TrustLoad":                          {rule: TrustLoad},
		"FenceEarly":                         {rule: FenceEarly},
		"RaiseSince":                         {rule: RaiseSince, first: 1100, kind: stormy},
		"a flush counts in any leader epoch": {without: func(w *walk) { w.anyFlush = true }, first: 1100, kind: stormy},
		"requests leave before their records are committed": {without: func(w *walk) { w.unheld = true }},
		"the log takes appends of a former leader":          {without: func(w *walk) { w.oldAppends = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := r.first; seed < r.first+20_000; seed++ {
				bad := walkWithout(seed, r.rule, r.without, r.kind)
				if len(bad) == 0 {
					continue
				}
				t.Logf("walk %d: %q", seed, bad)
				if bad := walkWithout(seed, 0, r.kind); len(bad) > 0 {
					t.Errorf("walk %d goes wrong with all rules: %q", seed, bad)
				}
				return
			}
			t.Error("no walk detects its absence")
		})
	}
}

func stormy(w *walk) { w.storm = true }

// walkWithout runs a walk without a rule and returns what goes wrong.
func walkWithout(seed uint64, rule Rule, change ...func(*walk)) []string {
	w := newWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, seed%2 == 1)
	w.broken.Rules = rule
	w.elect() // a shard without the rule
	for _, f := range change {
		if f != nil {
			f(w)
		}
	}
	return w.run(2500, seed%2 == 1)
}
