package raftstore

import "github.com/chronik-io/chronik/internal/breakrules"

// rule is a rule of safety that a test can remove to prove that the tests detect its absence. See
// package breakrules.
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

// broken names the rules that a test has removed.
type broken = breakrules.Removed[rule]
