package window

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that the walks detect its absence. See package
// breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	AnswerRepetition Rule = 1 << iota // a repeated acknowledgement does not wait for the write of the first one
	AnswerBelowStart                  // an acknowledgement below SPSO does not wait until SPSO is durable
	GapsArchived                      // a load archives the offsets that no mark names
	KeepCutMarks                      // a cut keeps the marks of records that the log has lost
	AnyMember                         // a member acknowledges what another member holds
	FirstDeadline                     // a renewal does not change the deadline
	AckKeepsLock                      // an acknowledgement that is not durable does not end the lock
	DeliverAgain                      // a release at the delivery limit makes the record available
	KeepStart                         // SPSO stays below the log start
	ForgetWaiting                     // a request waits for a write whose offsets the log start has passed
	UncountReleased                   // a release reduces the delivery count
	CountAcquired                     // an acquired record is stored with the count of the delivery that is not over
	ApplyPart                         // the valid part of an acknowledgement is applied
	ServeRefused                      // a window whose write was refused continues
	TakeHeld                          // records are acquired that were available when they were read
	SkipRest                          // an acquisition continues after a batch that did not fit into the window
	SecondWrite                       // a write begins while another one is under way
	ArchiveUncopied                   // a dead letter is archived before it is copied
	MixPoison                         // a record that failed often is delivered with others
	RetryAtOnce                       // a released record is available at once despite the retry delay
	ForgetDeliveries                  // a window that closes does not store the deliveries that are not over
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
