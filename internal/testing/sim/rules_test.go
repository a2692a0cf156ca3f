package sim

import (
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

// rule is a rule of a component that the simulation replaces.
type rule uint32

// The rules, named after what happens without them.
const (
	registerFirst      rule = 1 << iota // a broker is registered before its records are adjusted
	noMark                              // a registration does not fence the former process first
	resumeAfterRevert                   // a leader continues in its epoch after its log took records back
	highFromEnd                         // a start takes the log's end for the high watermark
	cutToHigh                           // a new follower truncates to its high watermark
	anyEpochAppends                     // the log accepts what was queued under an earlier leader epoch
	acceptGap                           // the log accepts batches that do not begin at its end
	placeUnconditional                  // a placement write compares nothing
	cutToLeaderEnd                      // a follower ignores where the epoch ends in its own log (KIP-279)
	lossyIsLast                         // the last replica is restored although it lost records
	keepSubscription                    // a change of the log's mode needs no new subscription
	keepEmptyEpochs                     // a new follower keeps the epochs in which it led without a record
	leadBelowLog                        // a broker leads in an epoch below that of its log
	stayAhead                           // a follower with a later epoch than its leader asks for no higher one
	replaceNeeded                       // a damaged log is replaced although its replica is in ISR or ELR
	replaceInEpoch                      // a damaged log is replaced in a leader epoch in which it has followed
	damagedFollows                      // a damaged log follows
	moveAnyStart                        // a log start moves although the role has changed since the leader named it
	sendEarlyStart                      // a leader names a log start that it may lose
	nameFormerStart                     // a follower subscribes while its log start is not durable yet
	compactUncommitted                  // compaction removes a record because of one that is not committed
	compactVoided                       // compaction trusts a high watermark from before an unclean election
	keepCompacted                       // a log stays that compaction left incomplete after a truncation
	trustCopies                         // a copy of a compacted log stays after a truncation below what was committed
	forgetGaps                          // a follower does not store the epoch of a gap
	oldHeartbeats                       // a registration is recorded although a heartbeat made the former process active
	keepRole                            // a leader whose proposal was refused waits for an image that concerns its partition
)

// removed names the rules that a walk runs without.
type removed struct {
	progress progress.Rule
	election election.Rule
	sim      rule
}

func (r removed) has(x rule) bool { return r.sim&x != 0 }

func (r removed) inProgress() progress.Broken { return breakrules.Without(r.progress) }
func (r removed) inElection() election.Broken { return breakrules.Without(r.election) }
