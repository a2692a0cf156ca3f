//go:build breakrules

package group

import (
	"math/rand/v2"
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Without any one of the rules of groups, some history goes wrong.
func TestEveryRuleOfGroupsIsNeeded(t *testing.T) {
	random := func(rule Rule, acts []string, seed uint64) string {
		return newChaos(seeded{rand.New(rand.NewPCG(seed, 1))}, breakrules.Without(rule)).run(60, acts)
	}
	moves := []string{"old", "old", "new", "beat", "beat", "beat", "beat", "beat", "subscribe", "leave", "time", "reload"}
	for name, bad := range map[string]func() bool{
		"FirstSubscription": func() bool {
			return random(FirstSubscription, oldActs, 0) != "" || random(FirstSubscription, oldActs, 1) != "" ||
				random(FirstSubscription, oldActs, 2) != ""
		},
		"FinishDowngrade": func() bool {
			for seed := range uint64(1000) {
				if random(FinishDowngrade, moves, seed) != "" {
					return random(0, moves, seed) == ""
				}
			}
			return false
		},
		"OwnAssigned":   func() bool { return upgraded(t, breakrules.Without(OwnAssigned)) != 0 },
		"KeepTarget":    func() bool { return replacing(t, breakrules.Without(KeepTarget)) != 4 },
		"ReturnQuietly": func() bool { return returning(t, breakrules.Without(ReturnQuietly)) != 4 },
	} {
		if !bad() {
			t.Errorf("nothing detects the absence of %s", name)
		}
	}
}

// Without any one of the rules of transactions, some walk goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	for name, rule := range map[string]Rule{
		"OverwriteNewer": OverwriteNewer, "ReadUnstable": ReadUnstable, "AnyEpoch": AnyEpoch, "NeverAsk": NeverAsk,
		"KeepGuards and AskAgain": KeepGuards | AskAgain, // the former alone is covered by the latter, and by the epochs of version 5
		"AnyPermit":               AnyPermit, "AnyCoordinator": AnyCoordinator, "ForgetMarkers": ForgetMarkers,
		"AskAgain": AskAgain, "DeletePending": DeletePending, "ForgetTransaction": ForgetTransaction,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				if bad := newWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, breakrules.Without(rule)).run(400); len(bad) > 0 {
					t.Logf("walk %d: %q", seed, bad)
					if bad := newWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, Broken{}).run(400); len(bad) > 0 {
						t.Errorf("walk %d goes wrong with all rules: %q", seed, bad)
					}
					return
				}
			}
			t.Error("no walk detects its absence")
		})
	}
}

// Without any one of the rules of share groups, some walk goes wrong.
func TestEveryRuleOfShareGroupsIsNeeded(t *testing.T) {
	for name, rule := range map[string]Rule{
		"AssignUninitialized": AssignUninitialized, "InitializeUnrecorded": InitializeUnrecorded,
		"ForgetInitializing": ForgetInitializing, "AskOnce": AskOnce, "DeleteWhileInitializing": DeleteWhileInitializing,
		"InitializeWhileDeleting": InitializeWhileDeleting, "KeepStates": KeepStates, "DeleteJoined": DeleteJoined,
		"KeepDeletedTopics": KeepDeletedTopics, "AnyMemberEpoch": AnyMemberEpoch,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				if bad := newShareWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, breakrules.Without(rule)).run(100); bad != "" {
					t.Logf("walk %d: %s", seed, bad)
					if bad := newShareWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, Broken{}).run(100); bad != "" {
						t.Errorf("walk %d goes wrong with all rules: %s", seed, bad)
					}
					return
				}
			}
			t.Error("no walk detects its absence")
		})
	}
	if comesAndGoes(t, breakrules.Without(ForgetNewStates)) == 0 {
		t.Error("nothing detects the absence of ForgetNewStates")
	}
}

// Without the rule of restored groups, each kind is wrong.
func TestTheRuleOfRestoredGroupsIsNeeded(t *testing.T) {
	for kind := range restoredKinds {
		if restoredWrongly(t, kind, breakrules.Without(KeepMembers)) == "" {
			t.Errorf("nothing detects the absence of KeepMembers: %s", kind)
		}
	}
}
