package raftstore

// rule is a rule of safety that a test can remove to prove that the tests detect its absence. Only
// a build with the tag breakrules can remove rules.
type rule uint32

const (
	sendBeforePersist       rule = 1 << iota // messages leave before what they promise is durable
	sharedMemberID                           // a member that lost its directory comes back under its old id
	decideBeforeOwnTerm                      // a leader counts as ready before it applied an entry of its own term
	conflictWithoutRevision                  // a conflict does not carry the revision that decided it
)
