package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// forgetAfter is how long a member without a vote and without a broker must have been silent before
// it is removed from the group.
const forgetAfter = time.Minute

// replaceAfter is how long a voter must have been silent before a broker with another node id takes
// over its vote.
const replaceAfter = 10 * time.Second

// GroupMember is a member of the Raft group as its leader knows it.
type GroupMember struct {
	ID     uint64
	Voter  bool
	Active bool          // heard recently
	Silent time.Duration // since it was heard
	// Registered: it is the member of a registered broker.
	Registered bool
	// Successor is the member with which the broker of this directory has registered since, 0 if
	// there is none.
	Successor uint64
	// WantsVote: its broker is a seed.
	WantsVote bool
}

// Change is a change of the members of the Raft group; the zero value is none. At most one field is
// set.
type Change struct {
	Promote []uint64 // learners that become voters, all at once
	// Replace moves the vote of a member whose directory is lost to a learner.
	Replace struct{ Former, Learner uint64 }
	Remove  uint64 // a learner that will not come back
}

// NextChange decides on the next change of the members. seeds is how many voters the cluster should
// have. It is pure; the caller asks again after each change. The group refuses a change that would
// cost it its majority, or that takes the vote of a member that was heard recently.
//
// A voter is replaced if no broker is registered with it: its broker registered with another
// member, because its metadata directory was lost. That member gets the vote, as soon as the former
// one is not Active: the controller registers it only after the session of the former process has
// ended, so the process that answers for this node.id has the new directory. It need not be a seed
// at its present address. To take the vote is
// safe whatever has become of the former directory, because the change needs a majority of the
// members before and after it, and a directory that comes back is added again with all its votes
// and entries. To leave the vote there is not safe: the next directory that is lost may cost the
// majority. If no broker has the node.id of a lost member, another one takes the vote after
// replaceAfter. Other learners become voters only if the result
// is an odd number, and all at once, so that no even number of voters is ever in charge.
func NextChange(members []GroupMember, seeds int) (c Change) {
	var lost, candidates []GroupMember
	reserved := map[uint64]bool{} // for the vote of their own former member
	voters := 0
	for _, m := range members {
		switch {
		case m.Voter:
			voters++
			if !m.Registered && !m.Active {
				lost = append(lost, m)
				reserved[m.Successor] = true
			}
		case m.Registered && m.Active:
			candidates = append(candidates, m)
		case !m.Registered && !m.Active && m.Silent > forgetAfter && c.Remove == 0:
			c.Remove = m.ID
		}
	}
	if len(candidates) == 0 {
		return c
	}
	slices.SortFunc(candidates, func(a, b GroupMember) int { return cmp.Compare(a.ID, b.ID) })
	if len(lost) > 0 {
		c = Change{}
		c.Replace.Former, c.Replace.Learner = nextReplacement(lost, candidates, reserved)
		return c
	}
	candidates = slices.DeleteFunc(candidates, func(m GroupMember) bool { return !m.WantsVote })
	room := seeds - voters
	if room = min(room, len(candidates)); (voters+room)%2 == 0 {
		room--
	}
	if room <= 0 {
		return c
	}
	c = Change{}
	for _, m := range candidates[:room] {
		c.Promote = append(c.Promote, m.ID)
	}
	return c
}

// nextReplacement chooses the vote that moves next, and the learner that gets it; 0 for none.
func nextReplacement(lost, candidates []GroupMember, reserved map[uint64]bool) (former, learner uint64) {
	slices.SortFunc(lost, func(a, b GroupMember) int { return -cmp.Compare(a.Silent, b.Silent) })
	for _, l := range lost {
		for _, m := range candidates {
			if l.Successor == m.ID || l.Successor == 0 && m.WantsVote && !reserved[m.ID] && l.Silent >= replaceAfter {
				return l.ID, m.ID
			}
		}
	}
	return 0, 0
}

// LostVote returns the member of an earlier metadata directory of a broker that still has a vote; 0
// if there is none. Until the vote has moved, the metadata tolerate one failure less. voters
// contains the former voters while a joint change is in progress: a majority of them is needed
// until its end.
func LostVote(broker *metadata.Broker, voters []uint64) uint64 {
	for _, m := range broker.Former {
		if slices.Contains(voters, m) {
			return m
		}
	}
	return 0
}
