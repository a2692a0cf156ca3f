package progress

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that the walks of internal/testing/sim detect
// its absence. See package breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	CountNewISR         Rule = 1 << iota // the proposed ISR counts alone, as if it were accepted
	CountOldISR                          // the ISR of the view counts alone, although a proposal is pending
	CountFormerLives                     // ends count whatever the registration of the broker is
	CountUnplaced                        // ends count before the replica's directory is recorded
	CountWritten                         // written ends count whatever the mode of the follower's log is
	KeepHigherEnds                       // a subscription does not lower the ends of an earlier one
	AcceptOldHandles                     // ends of former subscriptions and epochs count
	AcceptOldRequests                    // a request of a replaced connection begins a subscription
	ForgetPending                        // a proposal without an answer is forgotten
	DropRefused                          // a refused proposal is forgotten before the view shows why
	MoveDespiteELR                       // the high watermark moves while the ELR is not empty
	ClearELREarly                        // the ELR is emptied while the ISR is below min.insync.replicas
	ShrinkWithoutELR                     // a member that leaves a small ISR is not eligible
	JoinBelowHigh                        // a follower joins below the high watermark
	JoinBelowEpochStart                  // a follower joins below the start of the epoch
	JoinAboveStart                       // a follower joins whose log begins above the leader's
	JoinBelowStart                       // a follower joins whose log has records that were deleted
	EmptyProposed                        // a log begins again, empty, that the leader has proposed for the ISR, or proposes meanwhile
	KeepDeleted                          // a follower continues behind records with which the leader's deleted ones can't be compared
	JoinWithoutCompares                  // a proposal depends on the partition's record only
	KeepDamaged                          // a member whose log ends below the high watermark stays
	HighBeyondEnd                        // a follower's high watermark exceeds its own end
	CutBelowHigh                         // a truncation below the high watermark needs no unclean election
	DurableWritten                       // a follower's written end counts as durable
	LeaveUnaware                         // a member leaves the ISR before it knows that it does not lead any longer
	DeleteAlone                          // a deletion is answered when the leader's own log start has moved
	LeadShort                            // a leader stays that lacks what a member of ISR or ELR has committed
	CommitUnnoted                        // a leader commits before its log notes that it leads in the epoch
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
