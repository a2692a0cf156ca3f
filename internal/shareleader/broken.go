package shareleader

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that its tests detect its absence. See package
// breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	AnswerEarly    Rule = 1 << iota // an acknowledgement is answered before it is stored
	AnyEpoch                        // a request of a session may have any epoch
	AnyConnection                   // a request of a session may come from any connection
	EndOther                        // the end of a connection ends the session that its member has on another one
	KeepLocks                       // the end of a session releases nothing
	NewestFirst                     // a fetch that waits longer is served later
	TakeBeyond                      // records are acquired although the memory is used up
	RefuseAnswers                   // an acknowledgement is refused because the memory is used up
	TakeUnstored                    // records are acquired although a write has no answer for long
	ForgetCut                       // a leader opens without a cut
	CutAtLast                       // a leader takes the end of the recorded epoch in its log for the cut
	LeadAnyEpoch                    // a share partition is served in a later leader epoch without a load
	StallEndsLocks                  // a process that stood still ends the locks that could not be acknowledged
	KeepIdle                        // an idle session keeps its place when others need it
	WaitWithTurn                    // a fetch that cannot use its turn keeps it
	CopyAhead                       // further dead letters are copied before it is stored that the last ones are archived
	LeaveAtOnce                     // a leader that loses its leadership does not write what has changed
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
