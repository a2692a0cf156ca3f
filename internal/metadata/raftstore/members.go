package raftstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/chronik-io/chronik/internal/metadata"
)

// promoteWithin is how recently a learner must have been heard to become a voter: a voter that has
// gone in the meantime may leave the others without a majority.
const promoteWithin = time.Second

// Errors of membership changes. Nothing was changed.
var (
	// ErrChangeInProgress: the leader makes another change, or has not applied the last one yet.
	ErrChangeInProgress = errors.New("another change of the metadata members is in progress")
	// ErrNotCaughtUp: the member lacks entries that are committed.
	ErrNotCaughtUp = errors.New("member has not caught up with the metadata log")
	// ErrNoQuorum: the voters after the change would not have a majority that answers.
	ErrNoQuorum = errors.New("too few of the voters answer")
	// ErrStillActive: the voter that would be replaced was heard recently.
	ErrStillActive = errors.New("the voter answers, or did recently")
)

// Leadership is what a member knows of the metadata leader.
type Leadership struct {
	Leader uint64 // a member id; 0: unknown
	Term   uint64
	// Ready reports that this member leads and has applied an entry of its own term: its state
	// contains everything that was committed in earlier terms. The controller must not decide
	// before that.
	Ready bool
	// Former is the leader that this member knew before, 0 if that is not known or was this one.
	// Until FormerUntil, a leader of an earlier term may have been confirmed, as Store.Confirmed
	// tells, and not later. Both are set only if this member leads.
	Former      uint64
	FormerUntil time.Time
}

// Leadership returns who leads, and a channel that is closed at the next change.
func (s *Store) Leadership() (Leadership, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.role, s.roleMoved
}

// Confirmed returns when this member sent the newest question whether it still leads that a
// majority of the voters has answered: at that time, no other member led in a later term. It is the
// zero time if this member does not lead. A leader asks every 2 ticks; the only voter need not ask.
func (s *Store) Confirmed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sole.Load() != 0 && s.role.Ready {
		return s.opts.now()
	}
	return s.confirmed
}

// Sole returns 0 unless this member is the only voter, as far as it has applied the log. As long as
// it returns the same number, no other member has been elected or can be: that needs the vote of
// this member until it has applied that there are other voters. It takes no lock.
func (s *Store) Sole() uint64 { return s.sole.Load() }

// Member returns the id of this member: random, made with the directory.
func (s *Store) Member() uint64 { return s.node.member }

// Generation returns the cluster generation of the state, zero if the member has no state.
func (s *Store) Generation() [16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// Voters returns the voters after the newest change of members that this member has applied; while
// a joint change is in progress, also those before it, whose majority is needed until its end. The
// caller must not modify them. Unlike Status, it never waits for a disk.
func (s *Store) Voters() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.voters
}

// AddLearner makes a member receive the metadata without a vote. It must be called on the leader,
// like all methods that change the members; they return ErrNotLeader elsewhere. They return when
// this member has applied the change. Adding a member again changes nothing.
func (s *Store) AddLearner(ctx context.Context, member uint64) error {
	return s.reconfigure(ctx, "add learner", func(n *node) (*pb.ConfChangeV2, error) {
		if n.isMember(member) {
			return nil, nil
		}
		return changes(single(pb.ConfChangeAddLearnerNode, member)), nil
	})
}

// SetVoters makes members the voters, in one joint change, and all other voters learners. Each new
// voter must have everything that is committed, a majority of the members must answer, and the
// leader must be one of them.
func (s *Store) SetVoters(ctx context.Context, members ...uint64) error {
	return s.reconfigure(ctx, "set the voters", func(n *node) (*pb.ConfChangeV2, error) { return n.setVoters(members) })
}

func (n *node) setVoters(members []uint64) (*pb.ConfChangeV2, error) {
	if !slices.Contains(members, n.member) {
		return nil, fmt.Errorf("%w: the leader can't take its own vote", ErrStillActive)
	}
	var list []*pb.ConfChangeSingle
	answers := 0
	for _, m := range members {
		if m == n.member || n.silence(m) <= promoteWithin {
			answers++
		}
		if slices.Contains(n.conf.GetVoters(), m) {
			continue
		}
		if !n.caughtUp(m) {
			return nil, fmt.Errorf("%w: %x", ErrNotCaughtUp, m)
		}
		list = append(list, single(pb.ConfChangeAddNode, m))
	}
	for _, v := range n.conf.GetVoters() {
		if !slices.Contains(members, v) {
			list = append(list, single(pb.ConfChangeAddLearnerNode, v))
		}
	}
	switch {
	case len(list) == 0:
		return nil, nil
	case answers <= len(members)/2:
		return nil, ErrNoQuorum
	}
	return changes(list...), nil
}

// Replace gives the vote of a member to a learner, in one joint change, and removes the former. The
// learner must have everything that is committed; the former must have been silent for an election
// timeout, 10 ticks; and a majority of the other voters must answer.
func (s *Store) Replace(ctx context.Context, former, learner uint64) error {
	return s.reconfigure(ctx, "replace", func(n *node) (*pb.ConfChangeV2, error) {
		voters := n.conf.GetVoters()
		switch {
		case !slices.Contains(voters, former) && slices.Contains(voters, learner):
			return nil, nil
		case former == n.member || n.silence(former) <= electionTicks*n.opts.Tick:
			return nil, fmt.Errorf("%w: %x", ErrStillActive, former)
		case !n.caughtUp(learner):
			return nil, fmt.Errorf("%w: %x", ErrNotCaughtUp, learner)
		case !n.quorumAnswers(func(m uint64) bool { return m == former }):
			return nil, ErrNoQuorum
		}
		return changes(single(pb.ConfChangeRemoveNode, former), single(pb.ConfChangeAddNode, learner)), nil
	})
}

// Remove removes a member. It refuses to remove the leader, and a voter without which the others
// would have no majority that answers.
func (s *Store) Remove(ctx context.Context, member uint64) error {
	return s.reconfigure(ctx, "remove", func(n *node) (*pb.ConfChangeV2, error) {
		switch {
		case !n.isMember(member):
			return nil, nil
		case member == n.member:
			return nil, fmt.Errorf("%w: the leader can't remove itself", ErrStillActive)
		case slices.Contains(n.conf.GetVoters(), member) && !n.quorumAnswers(func(m uint64) bool { return m == member }):
			return nil, ErrNoQuorum
		}
		return changes(single(pb.ConfChangeRemoveNode, member)), nil
	})
}

// Resign hands the leadership to the voter that has the most entries, and waits until this member
// no longer leads or ctx ends. If to is not empty, only these voters count. If none of them was
// heard in the last second, it returns ErrNoQuorum at once.
func (s *Store) Resign(ctx context.Context, to ...uint64) error {
	asked := make(chan bool, 1)
	err := s.do(ctx, func(n *node) (err error) {
		defer func() { asked <- n.role.Leader != n.member || n.raft.BasicStatus().LeadTransferee != 0 }()
		return n.resign(to)
	})
	if err == nil {
		select {
		case ok := <-asked:
			if !ok {
				err = ErrNoQuorum
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("hand over the metadata leadership: %w", err)
	}
	for {
		role, moved := s.Leadership()
		if role.Leader != s.node.member {
			return nil
		}
		select {
		case <-moved:
		case <-s.ended:
			return metadata.ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("hand over the metadata leadership: %w", ctx.Err())
		}
	}
}

func (n *node) resign(to []uint64) (err error) {
	defer n.guard(&err)
	if n.failed != nil || n.role.Leader != n.member {
		return nil
	}
	best, match := uint64(0), uint64(0)
	n.raft.WithProgress(func(id uint64, typ raft.ProgressType, p progress) {
		able := id != n.member && typ == raft.ProgressTypePeer && n.silence(id) <= promoteWithin
		if able && p.Match > match && (len(to) == 0 || slices.Contains(to, id)) {
			best, match = id, p.Match
		}
	})
	if best != 0 {
		n.raft.TransferLeader(best)
	}
	return n.work()
}

// reconfigure asks for a change and waits for it.
func (s *Store) reconfigure(ctx context.Context, what string, ask func(*node) (*pb.ConfChangeV2, error)) error {
	done := make(chan error, 1)
	err := s.do(ctx, func(n *node) error {
		if !n.role.Ready {
			done <- ErrNotLeader
			return nil
		}
		cc, err := ask(n)
		if err != nil || cc == nil {
			done <- err
			return nil
		}
		return n.reconfigure(cc, done)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", metadata.ErrUnknown, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func single(t pb.ConfChangeType, member uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: t.Enum(), NodeId: new(member)}
}

func changes(list ...*pb.ConfChangeSingle) *pb.ConfChangeV2 {
	return &pb.ConfChangeV2{Transition: pb.ConfChangeTransitionAuto.Enum(), Changes: list}
}

func (n *node) isMember(member uint64) bool {
	return slices.Contains(n.conf.GetVoters(), member) || slices.Contains(n.conf.GetLearners(), member)
}

// caughtUp reports whether a member is known to have every entry that is committed, and was heard
// within promoteWithin.
func (n *node) caughtUp(member uint64) bool {
	commit, ok := n.raft.BasicStatus().GetCommit(), false
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p progress) {
		ok = ok || id == member && p.Match >= commit
	})
	return ok && n.silence(member) <= promoteWithin
}

// silence returns how long a member was not heard. A new leader counts from its election.
func (n *node) silence(member uint64) time.Duration {
	return time.Duration(n.ticks-max(n.heard[member], n.ledFrom)) * n.opts.Tick
}

// quorumAnswers reports whether, without the members that gone names, a majority of today's voters
// was heard in the last election timeout.
func (n *node) quorumAnswers(gone func(uint64) bool) bool {
	return n.answers(n.conf.GetVoters(), electionTicks, gone)
}

// answers reports whether a majority of voters was heard in the last ticks, without the members
// that gone names.
func (n *node) answers(voters []uint64, ticks uint64, gone func(uint64) bool) bool {
	answers := 0
	for _, v := range voters {
		if !gone(v) && (v == n.member || n.ticks-n.heard[v] <= ticks) {
			answers++
		}
	}
	return answers > len(voters)/2
}
