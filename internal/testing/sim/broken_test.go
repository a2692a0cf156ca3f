//go:build breakrules

package sim

import (
	"os"
	"strconv"
	"testing"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

// without has a case for each rule that the walks detect. rare marks those for which that takes
// thousands of walks. first is a walk that has detected the rule's absence, and is tried before all
// others: after a change of the walks the search may be long again, until it is replaced. The other
// rules have tests in their own packages: what they prevent does not occur as long as the rest
// hold, or it costs only availability.
var without = []struct {
	name    string
	removed removed
	rare    bool
	first   uint64
}{
	{"CountNewISR", removed{progress: progress.CountNewISR}, false, 59},
	{"CountOldISR", removed{progress: progress.CountOldISR}, false, 0},
	{"CountFormerLives", removed{progress: progress.CountFormerLives}, false, 0},
	{"CountUnplaced", removed{progress: progress.CountUnplaced}, false, 0},
	{"KeepHigherEnds", removed{progress: progress.KeepHigherEnds}, false, 42},
	{"AcceptOldHandles", removed{progress: progress.AcceptOldHandles}, false, 2116},
	{"CountWritten", removed{progress: progress.CountWritten}, false, 0},
	{"ForgetPending", removed{progress: progress.ForgetPending}, false, 24},
	{"DropRefused", removed{progress: progress.DropRefused}, false, 87},
	{"MoveDespiteELR", removed{progress: progress.MoveDespiteELR}, false, 0},
	{"ClearELREarly", removed{progress: progress.ClearELREarly}, false, 21},
	{"ShrinkWithoutELR", removed{progress: progress.ShrinkWithoutELR}, false, 430},
	{"JoinBelowHigh", removed{progress: progress.JoinBelowHigh}, false, 0},
	{"JoinBelowEpochStart", removed{progress: progress.JoinBelowEpochStart}, false, 21},
	{"JoinAboveStart", removed{progress: progress.JoinAboveStart}, false, 3280},
	{"JoinBelowStart", removed{progress: progress.JoinBelowStart}, false, 47},
	{"CommitUnnoted", removed{progress: progress.CommitUnnoted}, false, 13184},
	{"DeleteAlone", removed{progress: progress.DeleteAlone}, false, 0},
	{"KeepDeleted", removed{progress: progress.KeepDeleted}, false, 1484},
	{"JoinWithoutCompares", removed{progress: progress.JoinWithoutCompares}, false, 0},
	{"HighBeyondEnd", removed{progress: progress.HighBeyondEnd}, false, 0},

	{"KeepMissing", removed{election: election.KeepMissing}, false, 0},
	{"KeepLossy", removed{election: election.KeepLossy}, false, 50},
	{"ResumeEpoch", removed{election: election.ResumeEpoch}, false, 0},
	{"ForgetISR", removed{election: election.ForgetISR}, false, 21},
	{"FenceWithoutELR", removed{election: election.FenceWithoutELR}, false, 0},
	{"LeaveOneByOne", removed{election: election.LeaveOneByOne}, false, 46},

	{"LeadUncompared", removed{election: election.LeadUncompared}, false, 0},
	{"LeaveOne", removed{election: election.LeaveOne}, false, 0},
	{"CompareAlone", removed{election: election.CompareAlone}, false, 0},
	{"CompareLed", removed{election: election.CompareLed}, false, 0},

	{"CompleteEarly", removed{election: election.CompleteEarly}, false, 21},
	{"DropInSync", removed{election: election.DropInSync}, false, 1881},
	{"KeepEpoch", removed{election: election.KeepEpoch}, false, 25},
	{"LeaveUnaware of the controller", removed{election: election.LeaveUnaware}, false, 86},
	{"LeadUnable", removed{election: election.LeadUnable}, false, 0},
	{"LeaveUnaware of the leader", removed{progress: progress.LeaveUnaware}, false, 94},

	{"ReportedEpoch", removed{election: election.ReportedEpoch}, false, 0},

	{"registerFirst", removed{sim: registerFirst}, false, 118},
	{"noMark", removed{sim: noMark}, false, 0},
	{"resumeAfterRevert", removed{sim: resumeAfterRevert}, false, 0},
	{"highFromEnd", removed{sim: highFromEnd}, false, 0},
	{"cutToHigh", removed{sim: cutToHigh}, false, 0},
	{"anyEpochAppends", removed{sim: anyEpochAppends}, true, 0},
	{"acceptGap", removed{sim: acceptGap}, false, 0},
	{"placeUnconditional", removed{sim: placeUnconditional}, false, 312},
	{"cutToLeaderEnd", removed{sim: cutToLeaderEnd}, false, 38},
	{"lossyIsLast", removed{sim: lossyIsLast}, false, 73475},
	{"keepSubscription", removed{sim: keepSubscription}, true, 0},
	{"keepEmptyEpochs", removed{sim: keepEmptyEpochs}, false, 445},
	{"leadBelowLog", removed{sim: leadBelowLog}, false, 0},
	{"stayAhead", removed{sim: stayAhead}, false, 80},
	{"replaceNeeded", removed{sim: replaceNeeded}, false, 67},
	{"replaceInEpoch", removed{sim: replaceInEpoch}, false, 0},
	{"damagedFollows", removed{sim: damagedFollows}, false, 146},
	{"moveAnyStart", removed{sim: moveAnyStart}, false, 30},
	{"nameFormerStart", removed{sim: nameFormerStart}, true, 0},
	{"sendEarlyStart", removed{sim: sendEarlyStart}, false, 0},
	{"compactUncommitted", removed{sim: compactUncommitted}, false, 892},
	{"compactVoided", removed{sim: compactVoided}, true, 0},
	{"keepCompacted", removed{sim: keepCompacted}, true, 0},
	{"trustCopies", removed{sim: trustCopies}, true, 0},
	{"forgetGaps", removed{sim: forgetGaps}, false, 364},
	{"oldHeartbeats", removed{sim: oldHeartbeats}, false, 22},
	{"keepRole", removed{sim: keepRole}, false, 5368},
}

// If any one of the rules is removed, the walks must find a violation. Rules for which that takes
// thousands of walks are removed only if CHRONIK_SIM_RULES, the largest number of walks, is set.
func TestWalksDetectEveryRemovedRule(t *testing.T) {
	limit, long := 10_000, os.Getenv("CHRONIK_SIM_RULES")
	if long != "" {
		var err error
		if limit, err = strconv.Atoi(long); err != nil {
			t.Fatalf("CHRONIK_SIM_RULES: %v", err)
		}
	}
	for _, c := range without {
		t.Run(c.name, func(t *testing.T) {
			if c.rare && long == "" {
				t.Skip("takes long")
			}
			t.Parallel()
			for n := range limit + 1 {
				seed := uint64(n)
				if n == 0 {
					seed = c.first
				}
				cfg := config{replicas: 3, steps: 500, removed: c.removed}
				switch {
				case c.removed.has(leadBelowLog): // of several replicas, an election compares the logs first
					cfg.replicas, cfg.restores = 1, true
				case c.removed.progress == progress.JoinAboveStart, c.removed.has(nameFormerStart | damagedFollows):
					cfg.unclean = true // otherwise a client asked for what is missing
				case c.removed.progress == progress.CommitUnnoted: // once in thousands of long walks
					cfg.restores, cfg.steps = true, 1500
				case c.removed.election == election.ReportedEpoch,
					c.removed.has(stayAhead | compactVoided | keepCompacted | trustCopies):
					cfg.restores = true
				case c.removed.election >= election.CompleteEarly && c.removed.election < election.LeaveOneByOne,
					c.removed.election == election.LeadUnable:
					cfg.nodes, cfg.steps = 5, 700
				}
				if w := walk(seed, cfg); w.fault != "" {
					t.Logf("found by walk %d: %s", seed, w.fault)
					cfg.removed = removed{}
					if w := walk(seed, cfg); w.fault != "" {
						t.Errorf("walk %d goes wrong with all rules: %s", seed, w.fault)
					}
					return
				}
			}
			t.Errorf("nothing went wrong in %d walks without it", limit)
		})
	}
}
