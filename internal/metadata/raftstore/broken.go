package raftstore

// rule is a rule of safety that a test can remove to prove that the tests detect its absence. Only
// a build with the tag breakrules can remove rules.
type rule uint32

const (
	sendBeforePersist       rule = 1 << iota // messages leave before what they promise is durable
	sharedMemberID                           // a member that lost its directory comes back under its old id
	decideBeforeOwnTerm                      // a leader counts as ready before it applied an entry of its own term
	conflictWithoutRevision                  // a conflict does not carry the revision that decided it
	trustElectionTimeout                     // a former leader counts as unconfirmed for an election timeout
	ignoreVoters                             // only the new leader's own time bounds what a former one may have granted
	forgetAtStart                            // a member does not count the answers of its former process
	leaderUntouched                          // a member does not count its own questions as a leader
)
