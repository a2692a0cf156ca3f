package raftstore

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/chronik-io/chronik/internal/sorts"
)

// progress is what the library knows of a member.
type progress = tracker.Progress

// Status describes a member and, on the leader, all others. DescribeQuorum and metrics show it.
type Status struct {
	Member     uint64
	Generation [16]byte
	Leadership
	Commit   uint64 // index of the last entry known to be committed
	Applied  uint64 // index of the last entry applied here
	Last     uint64 // index of the last entry in this member's log
	Revision int64
	Keys     int
	Bytes    int64 // of keys and values
	LogBytes int64 // of entries in memory
	Dropped  uint64
	Failed   error
	Members  []MemberStatus // in order of their ids
}

// MemberStatus describes one member. Only the leader knows Match, Active and Silent.
type MemberStatus struct {
	Member uint64
	// Voter: until the end of a joint change, the voters before it. The group does not survive the
	// loss of their majority before that, whatever the voters after it are.
	Voter bool
	// Match is the index up to which the member is known to have the leader's entries.
	Match  uint64
	Active bool          // heard in the last election timeout
	Silent time.Duration // since the member was heard last
}

// Status returns the member's status, as far as it is known if the store is closed or ctx ends: a
// disk that hangs holds it up.
func (s *Store) Status(ctx context.Context) Status {
	out := make(chan Status, 1)
	if s.do(ctx, func(n *node) error { out <- n.status(); return nil }) != nil {
		return Status{Member: s.node.member, Revision: s.view.Revision(), Failed: s.Failed()}
	}
	st := <-out
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Dropped = s.dropped
	return st
}

func (n *node) status() Status {
	basic, state := n.raft.BasicStatus(), n.view.State()
	st := Status{
		Member: n.member, Generation: n.generation, Leadership: n.role, Commit: basic.GetCommit(), Applied: n.applied, Last: n.mem.last(),
		Revision: state.Revision(), Keys: state.Len(), Bytes: state.Bytes(), LogBytes: int64(n.mem.bytes), Failed: n.failed,
	}
	if n.role.Leader == n.member {
		n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p progress) {
			m := MemberStatus{Member: id, Voter: n.votes(id), Match: p.Match, Silent: n.silence(id)}
			if id == n.member {
				m.Silent = 0
			}
			m.Active = m.Silent <= electionTicks*n.opts.Tick
			st.Members = append(st.Members, m)
		})
	} else {
		all := slices.Concat(n.deciding, n.conf.GetLearners())
		slices.Sort(all)
		for _, id := range slices.Compact(all) {
			st.Members = append(st.Members, MemberStatus{Member: id, Voter: n.votes(id)})
		}
	}
	sorts.Sort(st.Members, func(a, b MemberStatus) int {
		if a.Member < b.Member {
			return -1
		}
		return 1
	})
	return st
}

// votes reports whether a member is a voter as MemberStatus says.
func (n *node) votes(member uint64) bool {
	if former := n.conf.GetVotersOutgoing(); len(former) > 0 {
		return slices.Contains(former, member)
	}
	return slices.Contains(n.conf.GetVoters(), member)
}
