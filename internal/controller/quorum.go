package controller

import "time"

// Quorum is the state of the metadata quorum.
type Quorum struct {
	Leader uint64 // member id
	Term   uint64
	Commit uint64 // index of the last committed entry
	// Members are all voters and learners.
	Members []QuorumMember
}

// QuorumMember is a member of the metadata quorum as the leader sees it.
type QuorumMember struct {
	Member uint64
	Voter  bool
	// End is the index of the last entry that the member is known to have.
	End uint64
	// Silent is the time since the leader heard from the member.
	Silent time.Duration
}
