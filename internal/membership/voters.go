package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
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
	// WantsVote: its broker is a seed, according to its own cluster.seeds.
	WantsVote bool
	// Agrees: its broker has the same cluster.seeds as the leader. Differs: it has others. Neither
	// is set before its first heartbeat to this leader.
	Agrees, Differs bool
	Leader          bool
}

// Change is a change of the members of the Raft group; the zero value is none. At most one field is
// set, apart from Waits and Differ.
type Change struct {
	// Voters are all voters after the change, sorted by id. A member that loses its vote becomes a
	// learner.
	Voters []uint64
	// Resign is set if the leader loses its vote by the next change, and must hand over first: to
	// one of these voters, which keep theirs.
	Resign []uint64
	// Replace moves the vote of a member whose directory is lost to a learner.
	Replace struct{ Former, Learner uint64 }
	Remove  uint64 // a learner that will not come back
	// Waits is why the voters differ from cluster.seeds and do not change yet; "" if they agree.
	// Differ are the members whose brokers have other seeds than the leader, if that is why.
	Waits  string
	Differ []uint64
}

// NextChange decides on the next change of the members. seeds is the length of the leader's
// cluster.seeds. It is pure; the caller asks again after each change. The group refuses a change
// that would cost it its majority, or that takes the vote of a lost member that was heard recently.
//
// A voter is replaced if no broker is registered with it: its broker registered with another
// member, because its metadata directory was lost. That member gets the vote, as soon as the former
// one is not Active: the controller registers it only after the session of the former process has
// ended, so the process that answers for this node.id has the new directory. It need not be a seed
// at its present address. To take the vote is safe whatever has become of the former directory,
// because the change needs a majority of the members before and after it, and a directory that
// comes back is added again with all its votes and entries. To leave the vote there is not safe:
// the next directory that is lost may cost the majority. If no broker has the node.id of a lost
// member, another one takes the vote after replaceAfter.
//
// Otherwise the voters become the seeds, in one change, when nextVoters has no reason to wait.
func NextChange(members []GroupMember, seeds int) (c Change) {
	var lost, candidates []GroupMember
	reserved := map[uint64]bool{} // for the vote of their own former member
	for _, m := range members {
		switch {
		case m.Voter:
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
	sorts.Sort(candidates, func(a, b GroupMember) int { return cmp.Compare(a.ID, b.ID) })
	if len(lost) > 0 && len(candidates) > 0 {
		c = Change{}
		if c.Replace.Former, c.Replace.Learner = nextReplacement(lost, candidates, reserved); c.Replace.Learner != 0 {
			return c
		}
	}
	if differ := otherSeeds(members); differ != nil {
		c.Waits, c.Differ = "brokers have different cluster.seeds; set the same list on all of them", differ
		return c
	}
	voters, resign, waits := nextVoters(members, seeds)
	switch {
	case waits != "":
		c.Waits = waits
	case resign != nil:
		return Change{Resign: resign}
	case voters != nil:
		return Change{Voters: voters}
	}
	return c
}

// otherSeeds returns the active members that vote, or want a vote, and have other cluster.seeds
// than the leader. The list changes by a rolling restart, during which brokers have different ones.
// A leader with a wrong list must change nothing, so all of these must have its list.
func otherSeeds(members []GroupMember) (list []uint64) {
	for _, m := range members {
		if m.Active && m.Differs && (m.Voter || m.Registered && m.WantsVote) {
			list = append(list, m.ID)
		}
	}
	return list
}

// nextVoters returns the voters that cluster.seeds asks for, nil if they are the present ones, or
// why they can't be known yet. No member may be in otherSeeds.
//
// A list of seeds has addresses, and only its broker knows that an address is its own. So the new
// voters are known when as many active brokers as the list has entries say that they are in it. A
// voter that is not in the list may be down for replaceAfter instead. After the change, a broker
// that comes back with the former list is a learner, and to give it a vote again would need that
// list on all brokers.
//
// A leader that loses its vote hands over to a voter that keeps its own, and resign has these. If
// it chose another one, two voters that both leave the list could elect each other for ever.
func nextVoters(members []GroupMember, seeds int) (voters, resign []uint64, waits string) {
	var keep []uint64
	var gains, loses, leaves, unclear, out bool
	for _, m := range members {
		switch {
		case m.Registered && m.Active && m.WantsVote && m.Agrees:
			voters = append(voters, m.ID)
			if gains = gains || !m.Voter; m.Voter {
				keep = append(keep, m.ID)
			}
		case !m.Voter:
		case m.Active && (!m.Agrees || !m.Registered), !m.Active && m.Silent < replaceAfter:
			unclear = true // it has just started or stopped
		default:
			loses, leaves, out = true, leaves || m.Leader, out || m.Active
		}
	}
	slices.Sort(voters)
	switch {
	case unclear || !gains && !loses, len(voters) < seeds && !gains && !out: // who is down may be in the list
		return nil, nil, ""
	case len(voters) < seeds:
		return nil, nil, "not all brokers of cluster.seeds answer"
	case len(voters) > seeds || seeds%2 == 0:
		return nil, nil, "cluster.seeds must name 1, 3 or 5 brokers, each once"
	case leaves && len(keep) == 0:
		return nil, nil, "no broker with a vote is in cluster.seeds; change the list in two steps"
	case leaves:
		slices.Sort(keep)
		return voters, keep, ""
	}
	return voters, nil, ""
}

// nextReplacement chooses the vote that moves next, and the learner that gets it; 0 for none.
func nextReplacement(lost, candidates []GroupMember, reserved map[uint64]bool) (former, learner uint64) {
	sorts.Sort(lost, func(a, b GroupMember) int { return -cmp.Compare(a.Silent, b.Silent) })
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
