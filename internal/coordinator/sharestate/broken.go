package sharestate

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that the walks detect its absence. See package
// breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	AnyLeader         Rule = 1 << iota // a write of a former leader counts
	RaiseLater                         // an open does not store the leader epoch; the first write does
	AnyCreation                        // only state epochs identify a state
	RepeatCreation                     // two states can have the same time of creation
	TakeLower                          // a lower mark replaces a stored one
	MoveBack                           // a write moves the start back
	IgnoreOutranked                    // of a write with lower marks the others are stored, and it succeeds
	CutLater                           // the cut is not in the record that raises the leader epoch
	CutOwn                             // a leader that opens again in its epoch cuts
	CutAltered                         // a state that no leader has opened is cut
	OpenOutdated                       // an open succeeds although another one came in between
	OpenFormer                         // an open lowers the leader epoch
	OpenStale                          // a former leader opens an altered state although the metadata has its successor
	StartLater                         // an open does not store where the group starts; the first write does
	PartialSnapshot                    // a snapshot lacks the marks of the write that causes it
	PruneIdle                          // the log is deleted up to the newest snapshots
	ReplaceExisting                    // an Initialize without an offset replaces a state
	ServeIncomplete                    // updates without their snapshot are taken for a state
	FormerCoordinator                  // an Initialize or a Delete of a former group coordinator counts
	LaterCoordinator                   // an Initialize or a Delete counts before the metadata have the epoch of its group coordinator
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
