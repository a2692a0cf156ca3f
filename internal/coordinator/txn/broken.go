package txn

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that the walks detect its absence. See package
// breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	CompleteEarly    Rule = 1 << iota // a transaction is complete when its markers are sent
	CountAnyAnswer                    // an answer to a marker of another transaction or life counts
	UnknownIsDone                     // a partition that is unknown to its broker counts as deleted
	AnswerFromCache                   // a repeated EndTxn gets success without a barrier
	AddFromCache                      // a repeated add of version 1 gets success without a barrier
	KeepFlush                         // a flush outlives the transaction that asked for it
	RepeatMarkers                     // a marker is sent again before the first one is answered
	KeepEpoch                         // an EndTxn of version 2 does not raise the epoch
	FenceWithoutEnd                   // InitProducerID raises the epoch and leaves the transaction open
	AnyEndEpoch                       // an EndTxn with another epoch ends the transaction
	NeverTimeOut                      // an open transaction has no timeout
	TimeOutSameEpoch                  // a timeout aborts and leaves the producer its epoch
	WrapEpoch                         // epochs continue after the largest one
	SkipFlush                         // a commit does not wait for records that are not durable yet
	IgnoreLoss                        // a commit does not check whether a partition lost records
	ForgetMarkers                     // a coordinator does not repeat the markers of its predecessor
	AddUnknown                        // a partition that the metadata does not have yet can be added
	TrustLoad                         // a partition that was added before a load counts as added at the commit
	RaiseSince                        // a later question takes the place of the add
	FenceEarly                        // a producer that ends a transaction of which nothing has come is fenced
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
