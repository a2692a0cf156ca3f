package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
)

// maxEntry is how many bytes of transactions share an entry; one larger transaction has an entry of
// its own.
const maxEntry = 1 << 20

// ErrNotLeader reports that nothing was proposed: this member does not lead, not in the given term,
// or can propose nothing at this moment.
var ErrNotLeader = errors.New("this member does not lead the metadata")

// request is an encoded transaction for the leader, which answers it exactly once.
type request struct {
	txn  []byte      // kv.AppendTxn
	term uint64      // refused if the leader's term is another one; 0: any
	done chan result // capacity 1; never closed
}

type result struct {
	revision int64
	err      error
}

// propose hands transactions to the library as one entry.
func (n *node) propose(requests []*request) (err error) {
	defer n.guard(&err)
	if n.failed != nil {
		answer(requests, result{err: n.failed})
		return nil
	}
	status := n.raft.BasicStatus()
	n.sequence++
	data := binary.BigEndian.AppendUint64([]byte{entryVersion}, n.sequence)
	p := &proposal{term: status.GetTerm()}
	for _, r := range requests {
		if status.RaftState != raft.StateLeader || r.term != 0 && (r.term != status.GetTerm() || !n.role.Ready) {
			r.done <- result{err: ErrNotLeader}
			continue
		}
		data, p.requests = bytesio.Append(data, r.txn), append(p.requests, r)
	}
	if len(p.requests) == 0 {
		return nil
	}
	if err := n.raft.Propose(data); err != nil { // too much is uncommitted, or the leadership is being transferred
		answer(p.requests, result{err: ErrNotLeader})
		return nil
	}
	p.bytes = len(data)
	n.waiting[n.sequence], n.inflightBytes = p, n.inflightBytes+p.bytes
	return n.work()
}

func answer(requests []*request, r result) {
	for _, q := range requests {
		q.done <- r
	}
}

// apply applies a committed entry: decides its transactions, and answers them if this member
// proposed them.
func (n *node) apply(e *pb.Entry) error {
	if e.GetIndex() != n.applied+1 {
		return fmt.Errorf("%w: entry %d follows entry %d", errBroken, e.GetIndex(), n.applied)
	}
	var outcomes []kv.Outcome
	var sequence uint64
	switch {
	case e.GetType() == pb.EntryConfChangeV2:
		if err := n.applyChange(e); err != nil {
			return err
		}
	case e.GetType() != pb.EntryNormal:
		return fmt.Errorf("%w: entry %d has the unknown type %v", errBroken, e.GetIndex(), e.GetType())
	case len(e.GetData()) > 0:
		s, txns, err := parseTxns(e.GetData())
		if err != nil {
			return fmt.Errorf("%w: entry %d: %w", errBroken, e.GetIndex(), err)
		}
		sequence, outcomes = s, n.view.Apply(txns)
	}
	n.applied, n.appliedAt = e.GetIndex(), e.GetTerm()
	p := n.waiting[sequence]
	if p == nil || p.term != e.GetTerm() || len(p.requests) != len(outcomes) {
		return nil
	}
	n.forget(sequence)
	for i, o := range outcomes {
		var conflict *metadata.ConflictError
		if errors.As(o.Err, &conflict) && n.broken.Has(conflictWithoutRevision) {
			conflict.Revision = 0
		}
		p.requests[i].done <- result{o.Revision, o.Err}
	}
	return nil
}

func (n *node) forget(sequence uint64) {
	n.inflightBytes -= n.waiting[sequence].bytes
	delete(n.waiting, sequence)
}

// abandon answers every proposal whose outcome this member can't learn any more.
func (n *node) abandon(err error) {
	for sequence, p := range n.waiting {
		answer(p.requests, result{err: err})
		n.forget(sequence)
	}
	if c := n.change; c != nil {
		n.change = nil
		c.done <- err
	}
}

// observe notes who leads. A member that no longer leads, or leads again in a later term, can't
// tell what became of its proposals: the next leader may commit them.
func (n *node) observe() {
	if n.failed != nil {
		return
	}
	status := n.raft.BasicStatus()
	next := Leadership{Leader: status.Lead, Term: status.GetTerm()}
	if status.RaftState == raft.StateLeader {
		next.Ready = n.appliedAt == status.GetTerm() && !n.doubted || n.broken.Has(decideBeforeOwnTerm)
		n.follows(&next)
	} else {
		n.doubted = false
	}
	if was := n.role; was.Leader == n.member && (next.Leader != was.Leader || next.Term != was.Term) {
		n.abandon(fmt.Errorf("%w: this member no longer leads", metadata.ErrUnknown))
	}
	n.lead(next)
}

// lead publishes who leads.
func (n *node) lead(next Leadership) {
	if next == n.role {
		return
	}
	if next.Leader != n.role.Leader && next.Leader != 0 {
		n.log.Info("metadata leader", zap.Uint64("member", next.Leader), zap.Uint64("term", next.Term))
	}
	if next.Leader == n.member && n.role.Leader != n.member {
		n.ledFrom = n.ticks
	}
	if next.Leader != n.member || next.Term != n.role.Term {
		n.confirmed = time.Time{}
		clear(n.asked)
	}
	if n.role = next; next.Leader != 0 {
		n.knew = next.Leader
	}
	n.host.led(next)
}

// change is a membership change that waits for its entry to be applied.
type change struct {
	id   []byte // its entry's context
	seen bool   // the library accepted it
	// applied: the change is in force; if it is joint, the former voters still count.
	applied bool
	done    chan error // of who asked: gets one result, when n.change becomes nil
}

// reconfigure proposes a membership change; done receives the result. One change at a time: the
// library silently drops a second one.
func (n *node) reconfigure(cc *pb.ConfChangeV2, done chan error) (err error) {
	defer n.guard(&err)
	switch {
	case n.failed != nil:
		done <- n.failed
		return nil
	case !n.role.Ready:
		done <- ErrNotLeader
		return nil
	case n.change != nil || len(n.conf.GetVotersOutgoing()) > 0:
		done <- ErrChangeInProgress
		return nil
	}
	n.sequence++
	n.change = &change{id: binary.BigEndian.AppendUint64(nil, n.sequence), done: done}
	cc.Context = n.change.id
	if err := n.raft.ProposeConfChange(cc); err != nil {
		n.change = nil
		done <- ErrNotLeader
		return nil
	}
	return n.work()
}

// expectChange answers a membership change that the library dropped: the entries that follow the
// proposal do not contain it.
func (n *node) expectChange(entries []*pb.Entry) {
	if n.change == nil || n.change.seen || len(entries) == 0 {
		return
	}
	for _, e := range entries {
		cc := &pb.ConfChangeV2{}
		ours := e.GetType() == pb.EntryConfChangeV2 && proto.Unmarshal(e.GetData(), cc) == nil
		if ours && bytes.Equal(cc.GetContext(), n.change.id) {
			n.change.seen = true
			return
		}
	}
	c := n.change
	n.change = nil
	c.done <- ErrChangeInProgress
}

// applyChange applies a membership change.
func (n *node) applyChange(e *pb.Entry) error {
	cc := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(e.GetData(), cc); err != nil {
		return fmt.Errorf("%w: entry %d: %w", errBroken, e.GetIndex(), err)
	}
	n.configure(n.raft.ApplyConfChange(cc))
	n.log.Info("metadata members changed", zap.Uint64s("voters", n.conf.GetVoters()),
		zap.Uint64s("outgoing", n.conf.GetVotersOutgoing()), zap.Uint64s("learners", n.conf.GetLearners()))
	c := n.change
	if c == nil {
		return nil
	}
	c.applied = c.applied || bytes.Equal(cc.GetContext(), c.id)
	if c.applied && len(n.conf.GetVotersOutgoing()) == 0 { // the library leaves a joint state with a second entry
		n.change = nil
		c.done <- nil
	}
	return nil
}
