//go:build breakrules

package shareleader

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// Without any one of the rules, its history ends differently.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		rule    Rule
		brokers int
		history func(*world) string
		change  func(*Options)
	}{
		"AnswerEarly": {AnswerEarly, 1, history01, nil}, "AnyEpoch": {AnyEpoch, 1, history19, nil},
		"AnyConnection": {AnyConnection, 1, history20, nil}, "EndOther": {EndOther, 1, history36, nil},
		"KeepLocks": {KeepLocks, 1, history35, nil}, "NewestFirst": {NewestFirst, 1, history33, nil},
		"TakeBeyond": {TakeBeyond, 1, history34, smallMemory}, "RefuseAnswers": {RefuseAnswers, 1, history34, smallMemory},
		"TakeUnstored": {TakeUnstored, 1, history30, nil}, "ForgetCut": {ForgetCut, 2, history13, nil},
		"CutAtLast":    {CutAtLast, 2, anEarlierLog, nil},
		"LeadAnyEpoch": {LeadAnyEpoch, 2, ledAgain, nil}, "StallEndsLocks": {StallEndsLocks, 1, history54, nil},
		"KeepIdle": {KeepIdle, 1, history38, twoSessions}, "WaitWithTurn": {WaitWithTurn, 1, busy, nil},
		"CopyAhead": {CopyAhead, 1, copyAhead, nil}, "LeaveAtOnce": {LeaveAtOnce, 2, handedOver, nil},
	} {
		t.Run(name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(*Options) {}
			}
			if bad := in(t, c.brokers, Broken{}, c.history, change); bad != "" {
				t.Fatalf("with all rules: %s", bad)
			}
			bad := in(t, c.brokers, breakrules.Without(c.rule), c.history, change)
			if bad == "" {
				t.Error("its history does not detect its absence")
			}
			t.Log(bad)
		})
	}
}

// Walks detect the absence of rules whose histories need several leaders or lost answers.
func TestWalksNeedTheRules(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"AnswerEarly":  func(o *Options) { o.Broken = breakrules.Without(AnswerEarly) },
		"ForgetCut":    func(o *Options) { o.Broken = breakrules.Without(ForgetCut) },
		"CutAtLast":    func(o *Options) { o.Broken = breakrules.Without(CutAtLast) },
		"LeadAnyEpoch": func(o *Options) { o.Broken = breakrules.Without(LeadAnyEpoch) },
		"GapsArchived": func(o *Options) { o.Window = breakrules.Without(window.GapsArchived) },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(1000) {
				if k := walked(t, seed, change); k.wrong != "" {
					t.Logf("walk %d: %s", seed, k.wrong)
					return
				}
			}
			t.Error("no walk detects its absence")
		})
	}
}
