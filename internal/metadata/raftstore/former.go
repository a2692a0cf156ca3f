package raftstore

import (
	"encoding/binary"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A leader that is elected knows until when one of an earlier term can have been confirmed; see
// Leadership.FormerUntil. Such a confirmation means that a majority answered a question, and the
// majority that elects the next leader has a member in common with it. That member was in touch
// with the former leader after the question and before its vote. So each vote tells for how long
// the voter was not in touch with any leader, and the newest of these times is the bound:
//
//	former leader   asks ──▶          (the answers may arrive at any time later)
//	common voter        touched ─────── for this long ──────▶ votes
//	next leader                                                  └▶ arrived: touched ≤ arrival - age
//
// Only a duration is sent, so clocks need the same rate and nothing else. A late message makes the
// bound later, which is safe. If there were leaders in between, each began with an append to a
// majority, so the newest touch of a voter is later than what bounds the leaders before. That holds
// also if the voters changed: a change is such an append.

// quietTicks is for how long a leader that hears no majority continues to send. Otherwise, members
// that hear it would neither elect another leader nor know that it is not confirmed any longer,
// until the library notices after up to two election timeouts. Two heartbeats may be lost. If the
// others merely do not run, nothing changes: what was sent before waits for them, and their answers
// arrive before they begin an election.
const quietTicks = 2 * heartbeatTicks

// voteContext is the length of the context of a vote: microseconds since the voter was in touch
// with a leader, big-endian.
const voteContext = 8

// maxAge bounds what a vote tells: no lease is that long.
const maxAge = time.Hour

// bound is when a voter that elects this member in a term can have been in touch with a leader.
type bound struct {
	term uint64
	last time.Time
}

// touch notes that a leader may count this member's answer to a message.
func (n *node) touch(m *pb.Message) {
	switch m.GetType() {
	case pb.MsgHeartbeat, pb.MsgApp, pb.MsgSnap:
		n.touched = n.opts.now()
	case pb.MsgVoteResp:
		if m.GetReject() {
			return
		}
		if m.GetTerm() > n.elected.term {
			n.elected = bound{term: m.GetTerm()}
		}
		var age time.Duration // unless it says so, the voter may be in touch with a leader now
		if len(m.GetContext()) == voteContext {
			age = time.Duration(min(binary.BigEndian.Uint64(m.GetContext()), uint64(maxAge/time.Microsecond))) * time.Microsecond
		}
		if at := n.opts.now().Add(-age); m.GetTerm() == n.elected.term && at.After(n.elected.last) {
			n.elected.last = at
		}
	}
}

// stateAge adds to a vote for how long this member was not in touch with a leader.
func (n *node) stateAge(m *pb.Message) {
	if m.GetType() != pb.MsgVoteResp || m.GetReject() {
		return
	}
	age := min(max(n.opts.now().Sub(n.touched), 0), maxAge)
	m.Context = binary.BigEndian.AppendUint64(nil, uint64(age/time.Microsecond))
}

// formerUntil returns the bound for a term that this member leads.
func (n *node) formerUntil(term uint64) time.Time {
	if n.broken.Has(trustElectionTimeout) {
		return n.opts.now().Add(-electionTicks * n.opts.Tick)
	}
	until := n.touched
	if n.elected.term == term && n.elected.last.After(until) && !n.broken.Has(ignoreVoters) {
		until = n.elected.last
	}
	return until
}

// quiet reports whether this member leads and has not heard a majority for quietTicks. It then
// sends neither entries nor heartbeats, like a leader whose disk hangs.
func (n *node) quiet() bool {
	if n.role.Leader != n.member || n.ticks-n.ledFrom <= quietTicks {
		return false
	}
	none := func(uint64) bool { return false }
	former := n.conf.GetVotersOutgoing()
	return !n.answers(n.conf.GetVoters(), quietTicks, none) || len(former) > 0 && !n.answers(former, quietTicks, none)
}

// follows completes what is published of a member that leads.
func (n *node) follows(next *Leadership) {
	if n.role.Leader == n.member && n.role.Term == next.Term {
		next.Former, next.FormerUntil = n.role.Former, n.role.FormerUntil
		return
	}
	if next.FormerUntil = n.formerUntil(next.Term); n.knew != n.member {
		next.Former = n.knew
	}
}
