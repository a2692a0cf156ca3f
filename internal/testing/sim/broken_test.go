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
// thousands of walks. The other rules have tests in their own packages: what they prevent does not
// occur as long as the rest hold, or it costs only availability.
var without = []struct {
	name    string
	removed removed
	rare    bool
}{
	{"CountNewISR", removed{progress: progress.CountNewISR}, false},
	{"CountOldISR", removed{progress: progress.CountOldISR}, false},
	{"CountFormerLives", removed{progress: progress.CountFormerLives}, false},
	{"CountUnplaced", removed{progress: progress.CountUnplaced}, false},
	{"KeepHigherEnds", removed{progress: progress.KeepHigherEnds}, false},
	{"AcceptOldHandles", removed{progress: progress.AcceptOldHandles}, false},
	{"CountWritten", removed{progress: progress.CountWritten}, false},
	{"ForgetPending", removed{progress: progress.ForgetPending}, false},
	{"DropRefused", removed{progress: progress.DropRefused}, false},
	{"MoveDespiteELR", removed{progress: progress.MoveDespiteELR}, false},
	{"ClearELREarly", removed{progress: progress.ClearELREarly}, false},
	{"ShrinkWithoutELR", removed{progress: progress.ShrinkWithoutELR}, false},
	{"JoinBelowHigh", removed{progress: progress.JoinBelowHigh}, false},
	{"JoinBelowEpochStart", removed{progress: progress.JoinBelowEpochStart}, false},
	{"JoinAboveStart", removed{progress: progress.JoinAboveStart}, false},
	{"JoinBelowStart", removed{progress: progress.JoinBelowStart}, false},
	{"CommitUnnoted", removed{progress: progress.CommitUnnoted}, false},
	{"DeleteAlone", removed{progress: progress.DeleteAlone}, false},
	{"KeepDeleted", removed{progress: progress.KeepDeleted}, false},
	{"JoinWithoutCompares", removed{progress: progress.JoinWithoutCompares}, false},
	{"HighBeyondEnd", removed{progress: progress.HighBeyondEnd}, false},

	{"KeepMissing", removed{election: election.KeepMissing}, false},
	{"KeepLossy", removed{election: election.KeepLossy}, false},
	{"ResumeEpoch", removed{election: election.ResumeEpoch}, false},
	{"ForgetISR", removed{election: election.ForgetISR}, false},
	{"FenceWithoutELR", removed{election: election.FenceWithoutELR}, false},
	{"LeaveOneByOne", removed{election: election.LeaveOneByOne}, false},

	{"CompleteEarly", removed{election: election.CompleteEarly}, false},
	{"DropInSync", removed{election: election.DropInSync}, false},
	{"KeepEpoch", removed{election: election.KeepEpoch}, false},
	{"LeaveUnaware of the controller", removed{election: election.LeaveUnaware}, false},
	{"LeadUnable", removed{election: election.LeadUnable}, false},
	{"LeaveUnaware of the leader", removed{progress: progress.LeaveUnaware}, false},

	{"ReportedEpoch", removed{election: election.ReportedEpoch}, false},

	{"registerFirst", removed{sim: registerFirst}, false},
	{"noMark", removed{sim: noMark}, false},
	{"resumeAfterRevert", removed{sim: resumeAfterRevert}, false},
	{"highFromEnd", removed{sim: highFromEnd}, false},
	{"cutToHigh", removed{sim: cutToHigh}, false},
	{"anyEpochAppends", removed{sim: anyEpochAppends}, true},
	{"acceptGap", removed{sim: acceptGap}, false},
	{"placeUnconditional", removed{sim: placeUnconditional}, false},
	{"cutToLeaderEnd", removed{sim: cutToLeaderEnd}, false},
	{"lossyIsLast", removed{sim: lossyIsLast}, false},
	{"keepSubscription", removed{sim: keepSubscription}, true},
	{"keepEmptyEpochs", removed{sim: keepEmptyEpochs}, false},
	{"leadBelowLog", removed{sim: leadBelowLog}, false},
	{"stayAhead", removed{sim: stayAhead}, false},
	{"replaceNeeded", removed{sim: replaceNeeded}, false},
	{"replaceInEpoch", removed{sim: replaceInEpoch}, false},
	{"damagedFollows", removed{sim: damagedFollows}, false},
	{"moveAnyStart", removed{sim: moveAnyStart}, false},
	{"nameFormerStart", removed{sim: nameFormerStart}, true},
	{"sendEarlyStart", removed{sim: sendEarlyStart}, false},
	{"compactUncommitted", removed{sim: compactUncommitted}, false},
	{"compactVoided", removed{sim: compactVoided}, true},
	{"keepCompacted", removed{sim: keepCompacted}, true},
	{"trustCopies", removed{sim: trustCopies}, true},
	{"forgetGaps", removed{sim: forgetGaps}, false},
	{"oldHeartbeats", removed{sim: oldHeartbeats}, false},
	{"keepRole", removed{sim: keepRole}, false},
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
			for seed := 1; seed <= limit; seed++ {
				cfg := config{replicas: 3, steps: 500, removed: c.removed}
				switch {
				case c.removed.has(leadBelowLog): // of several replicas, an election compares the logs first
					cfg.replicas, cfg.restores = 1, true
				case c.removed.progress == progress.JoinAboveStart, c.removed.has(nameFormerStart | damagedFollows):
					cfg.unclean = true // otherwise a client asked for what is missing
				case c.removed.election == election.ReportedEpoch, c.removed.progress == progress.CommitUnnoted,
					c.removed.has(stayAhead | compactVoided | keepCompacted | trustCopies):
					cfg.restores = true
				case c.removed.election >= election.CompleteEarly && c.removed.election < election.LeaveOneByOne,
					c.removed.election == election.LeadUnable:
					cfg.nodes, cfg.steps = 5, 700
				}
				if w := walk(uint64(seed), cfg); w.fault != "" {
					t.Logf("found by walk %d: %s", seed, w.fault)
					return
				}
			}
			t.Errorf("nothing went wrong in %d walks without it", limit)
		})
	}
}
