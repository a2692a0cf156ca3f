package group

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that the walks detect its absence. See package
// breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	OverwriteNewer          Rule = 1 << iota // a commit of a transaction replaces an offset written after its own
	ReadUnstable                             // require_stable does not hide offsets of an open transaction
	AnyEpoch                                 // a producer's epoch is not compared with the latest one
	NeverAsk                                 // offsets begin a transaction without a permit
	KeepGuards                               // a permit survives a marker
	AnyPermit                                // a permit of a replaced coordinator counts
	AnyCoordinator                           // a marker is accepted whatever its coordinator's epoch
	ForgetMarkers                            // a marker of an unknown producer is not remembered
	AskAgain                                 // offsets before version 5 outlive a marker while they wait for a permit
	DeletePending                            // groups and offsets go although offsets are pending
	ForgetTransaction                        // the transactions of an idle producer are forgotten while they are open
	FirstSubscription                        // a load keeps the subscription in a member's first record
	OwnAssigned                              // an upgrade ignores what members report that they own
	FinishDowngrade                          // a downgrade is recorded as a finished rebalance
	KeepTarget                               // an upgrade computes no target
	ReturnQuietly                            // a static member returns without the rebalance that it had to start
	AssignUninitialized                      // partitions of a share group are assigned before their states exist
	InitializeUnrecorded                     // an Initialize leaves without a record that names its partitions
	ForgetInitializing                       // a load of a share group sends nothing to share coordinators
	AskOnce                                  // a failed request to a share coordinator is not repeated
	DeleteWhileInitializing                  // a Delete does not wait for the result of an Initialize
	InitializeWhileDeleting                  // an Initialize does not wait for the result of a Delete
	KeepStates                               // a share group is deleted without its states
	DeleteJoined                             // a share group is deleted although a member has joined meanwhile
	ForgetNewStates                          // a share group is deleted without the states of a member that came and went meanwhile
	KeepDeletedTopics                        // the states of deleted topics stay in the record
	AnyMemberEpoch                           // a member of a share group may have any epoch
	KeepMembers                              // a restored group has the members and the epoch of the snapshot
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
