package raftstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
)

const (
	electionTicks  = 10
	heartbeatTicks = 2

	maxMessage     = 1 << 20  // bytes of entries in a message, unless one entry is larger
	maxUncommitted = 64 << 20 // bytes of entries that the leader has proposed and not committed

	maxRetryTicks = 20  // between two attempts to write a new generation after a failure
	slowTicks     = 100 // after which a snapshot that is not complete is reported
)

// node is one member without its goroutine: the raft library, the files and the state. Its methods
// must not be called concurrently. Each of them leaves nothing to do: what the library wants
// written is durable and what it wants sent was handed to the host, unless a write failed.
//
//	tick, step, propose ──▶ library ──▶ Ready: write, one fdatasync ─▶ send ─▶ apply ─▶ answer
//	                                       │ fails
//	                                       ▼
//	            nothing reaches the library or the host until a new generation is written
type node struct {
	opts   *Options
	host   host
	log    *zap.Logger
	broken broken

	disk    *statelog.Log
	writing *statelog.Generation // whose snapshot is being written; nil: none
	slow    uint64               // the tick at which that is reported as slow
	// rotateAt is the tick from which on the next generation may begin.
	rotateAt uint64

	mem  memoryLog
	raft *raft.RawNode
	view *kv.View

	member     uint64 // fixed by openNode: other goroutines read it
	generation [16]byte
	conf       *pb.ConfState // after the last applied entry
	deciding   []uint64      // its voters and outgoing voters; replaced, never changed
	sole       uint64        // see Store.Sole
	soles      uint64        // how often this member became the only voter
	applied    uint64        // index of that entry
	appliedAt  uint64        // its term
	synced     *pb.HardState // as written last

	ready    *raft.Ready // accepted from the library, and not durable because a write failed
	incoming *incoming   // the state of a snapshot that the library was given
	failed   error       // why nothing may be written; nil: the files accept writes
	retryAt  uint64      // the tick of the next attempt
	// retries is how often callers had it made at once in the tick retriedAt.
	retries   int
	retriedAt uint64
	retry     uint64 // ticks between attempts

	ticks uint64
	asked map[uint64]time.Time // by tick: when a majority was asked to confirm the leadership
	// confirmed is when the newest of these questions was asked that a majority has answered.
	confirmed time.Time
	// doubted: this member failed while it led. Its time stood still, so that it does not know
	// whether another one leads by now: it is not ready until a majority has confirmed it.
	doubted bool
	heard   map[uint64]uint64              // by member: the tick of its last message
	reports map[uint64]raft.SnapshotStatus // by member: how a transfer ended
	role    Leadership
	ledFrom uint64 // the tick at which this member became leader
	knew    uint64 // the newest leader that this member knew, 0 for none
	// touched is the latest time at which a leader may have counted an answer of this member, or
	// this member asked the others as their leader.
	touched  time.Time
	elected  bound
	sequence uint64 // of the last proposal; starts at a random number
	waiting  map[uint64]*proposal
	// inflightBytes is the size of the entries of waiting.
	inflightBytes int
	change        *change // the membership change in progress
}

// host is what a node needs from its owner.
type host interface {
	// send passes a message to a member. It does not block, and may drop the message.
	send(to uint64, message []byte)
	// background runs work in another goroutine, and then done, with its error, like every other
	// method of the node. It does not block.
	background(work func() error, done func(*node, error) error)
	// sendSnapshot transfers a snapshot in the background. The owner calls node.snapshotSent when
	// it has ended.
	sendSnapshot(s *snapshot)
	// note is called when generation, failed or the members changed, before this member acts on
	// that, or a caller gets an answer that follows from it.
	note(n *node)
	// led is called when the leadership changed.
	led(Leadership)
}

// incoming is a complete snapshot that arrived.
type incoming struct {
	index uint64
	state *kv.State
}

// proposal is an entry with transactions that was handed to the library.
type proposal struct {
	term     uint64
	bytes    int
	requests []*request
}

// openNode reads a member's files, or makes new ones with a new member id, and begins a generation.
func openNode(opts *Options, h host, stop <-chan struct{}) (*node, error) {
	n := &node{opts: opts, host: h, log: opts.Log, broken: opts.broken,
		heard: map[uint64]uint64{}, reports: map[uint64]raft.SnapshotStatus{}, asked: map[uint64]time.Time{},
		waiting:  map[uint64]*proposal{},
		sequence: randomID(),
	}
	if n.touched = opts.now(); n.broken.Has(forgetAtStart) { // until now, a former process may have answered
		n.touched = time.Time{}
	}
	l := newLoader()
	disk, content, err := statelog.Open(statelog.Options{
		FS: opts.FS, Dir: opts.Dir, Format: format, CompactBytes: opts.CompactBytes, Log: opts.Log,
	}, l)
	if err == nil {
		err = l.check(content.Log)
	}
	if err != nil {
		return nil, err
	}
	if !content.Used {
		l.meta.member = n.newMember()
	}
	n.member = l.meta.member // for good: other goroutines read it
	n.disk, n.mem, n.view = disk, l.log, kv.NewView(l.state, opts.History, stop)
	n.adopt(l.meta)
	if err := n.rotate(); err != nil {
		_ = disk.Close() // nothing was written
		return nil, err
	}
	if err := n.start(); err != nil {
		_ = disk.Close() // the cause is more important
		return nil, err
	}
	return n, nil
}

// newMember returns the id of a new directory: random, so that a member whose directory was lost
// comes back as another member, which can't vote a second time in a term in which it voted.
func (n *node) newMember() uint64 {
	if n.broken.Has(sharedMemberID) {
		return n.opts.memberID
	}
	return randomID()
}

// randomID returns a number that is neither 0 nor reserved by the library.
func randomID() uint64 {
	var p [8]byte
	_, _ = rand.Read(p[:]) // never fails
	return binary.BigEndian.Uint64(p[:])>>1 | 1
}

// adopt makes a loaded state of this member the node's own.
func (n *node) adopt(m meta) {
	n.generation, n.applied, n.appliedAt = m.generation, m.index, m.term
	n.configure(pb.EnsureConfState(m.conf))
	n.mem.conf = n.conf
	n.mem.snapshot = func() *pb.SnapshotMetadata {
		return &pb.SnapshotMetadata{Index: new(n.applied), Term: new(n.appliedAt), ConfState: n.conf}
	}
}

// configure notes the members after the last applied entry. The host knows them before this member
// acts on them: the entry that ends a joint change is proposed later, and no other member can be
// elected without this one before that entry.
func (n *node) configure(conf *pb.ConfState) {
	n.conf, n.deciding = conf, slices.Concat(conf.GetVoters(), conf.GetVotersOutgoing())
	switch sole := len(n.deciding) == 1 && n.deciding[0] == n.member; {
	case !sole:
		n.sole = 0
	case n.sole == 0:
		n.soles++
		n.sole = n.soles
	}
	n.host.note(n)
}

// start starts the library on what the files hold.
func (n *node) start() (err error) {
	defer n.guard(&err)
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID: n.member, Storage: &n.mem, Applied: n.applied,
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		PreVote: true, CheckQuorum: true, DisableProposalForwarding: true, StepDownOnRemoval: true,
		MaxSizePerMsg: maxMessage, MaxInflightMsgs: 64, MaxUncommittedEntriesSize: maxUncommitted,
		MaxCommittedSizePerReady: 16 * maxMessage,
		Logger:                   raftLogger{n.log.Sugar()},
	})
	if err != nil {
		return err
	}
	if n.sole != 0 {
		err = n.work() // before it has applied a change of the members, the library does not campaign
	}
	if err == nil && n.sole != 0 {
		err = n.raft.Campaign() // no other voter exists
	}
	if err == nil {
		err = n.work()
	}
	return err
}

// guard turns a panic of the library into an error. The library panics if its state contradicts
// itself, for example if a message would overwrite an applied entry: to continue would be worse.
func (n *node) guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errBroken, p)
	}
}

// errBroken marks a contradiction after which the process must end.
var errBroken = errors.New("replicated metadata contradict what was applied here")

// tick advances the node's time by one tick. While the files accept no writes, the library's time
// stands still: a leader sends no heartbeats then, and is replaced.
func (n *node) tick() (err error) {
	defer n.guard(&err)
	n.ticks++
	if n.writing != nil && n.ticks == n.slow {
		n.log.Warn("writing the metadata snapshot takes long; the log grows until it is complete")
	}
	if n.failed != nil {
		return n.recover()
	}
	n.raft.Tick()
	if (n.role.Ready || n.doubted) && n.ticks%heartbeatTicks == 0 && !n.quiet() {
		n.asked[n.ticks] = n.opts.now()
		if !n.broken.Has(leaderUntouched) {
			n.touched = n.asked[n.ticks]
		}
		n.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, n.ticks))
	}
	return n.work()
}

// idle reports that time changes nothing: there is no other member, and nothing to repeat.
func (n *node) idle() bool {
	return n.sole != 0 && n.role.Ready && len(n.conf.GetLearners()) == 0 && n.failed == nil && n.writing == nil && n.change == nil &&
		n.ticks >= n.rotateAt
}

// step handles a message of another member. The library refuses messages that it can't use, which
// is normal: for example, an answer to a member that is no longer leader. It does vote for a member
// that has no vote: one that was a voter until now, and to which the leadership was being handed
// over. The only voter does not, because Sole promises that no other member is elected.
func (n *node) step(m *pb.Message) (err error) {
	defer n.guard(&err)
	if n.failed != nil || m.GetType() == pb.MsgSnap && n.incoming == nil {
		return nil
	}
	if n.sole != 0 && (m.GetType() == pb.MsgVote || m.GetType() == pb.MsgPreVote) {
		return nil
	}
	if m.GetType() == pb.MsgHeartbeat && m.GetCommit() > n.mem.last() {
		return fmt.Errorf("%w: the leader has stored here entry %d, and the last one is %d: entries that this member acknowledged are lost, "+
			"perhaps because %s was put back from a copy; empty this directory, the node then joins as another member; but if another process "+
			"runs on a copy of it, end that one, and start this one again without a change",
			errBroken, m.GetCommit(), n.mem.last(), n.opts.Dir)
	}
	n.heard[m.GetFrom()] = n.ticks
	n.touch(m)
	if err := n.raft.Step(m); err != nil {
		n.log.Debug("metadata message refused", zap.Error(err))
	}
	return n.work()
}

// install handles the message of a snapshot whose state has arrived.
func (n *node) install(m *pb.Message, generation [16]byte, state *kv.State) (err error) {
	if n.failed != nil {
		return nil
	}
	index := m.GetSnapshot().GetMetadata().GetIndex()
	if index > n.applied && state.Revision() < n.view.Revision() {
		return fmt.Errorf("%w: snapshot of revision %d at entry %d, this member has revision %d at entry %d",
			errBroken, state.Revision(), index, n.view.Revision(), n.applied)
	}
	if n.generation == [16]byte{} {
		n.generation = generation
	}
	n.incoming = &incoming{index, state}
	err = n.step(m)
	if n.ready == nil {
		n.incoming = nil
	}
	return err
}

// work does everything that the library wants, until there is nothing or a write fails.
func (n *node) work() error {
	for n.failed == nil && n.raft.HasReady() {
		ready := n.raft.Ready()
		n.ready = &ready
		if err := n.remember(); err != nil {
			return err
		}
		if n.broken.Has(sendBeforePersist) {
			n.send(n.ready.Messages)
		}
		if err := n.persist(); err != nil {
			n.fail(err)
			return nil
		}
		if err := n.complete(); err != nil {
			return err
		}
	}
	return nil
}

// remember takes the entries and the hard state of the Ready into memory, so that a new generation
// contains them.
func (n *node) remember() error {
	if i := n.ready.Snapshot.GetMetadata().GetIndex(); i > 0 {
		if n.incoming == nil || n.incoming.index != i {
			return fmt.Errorf("%w: a snapshot at entry %d without its state", errBroken, i)
		}
		n.mem.reset(i, n.ready.Snapshot.GetMetadata().GetTerm())
	}
	for _, e := range n.ready.Entries {
		if err := n.mem.append(e); err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
	}
	if n.ready.HardState != nil {
		n.mem.hard = n.ready.HardState
	}
	return nil
}

// persist makes the Ready durable: one frame with one fdatasync, or a new generation if it has a
// snapshot. A commit index alone is not written: the next frame contains it, and a member that
// starts without it learns it from the leader. That of a change of members is written before the
// change is applied: a member that starts in the joint state needs a majority of the former voters
// to elect a leader, and their directories may be gone since.
func (n *node) persist() error {
	if n.ready.Snapshot.GetMetadata().GetIndex() > 0 {
		return n.rotate()
	}
	if !n.ready.MustSync && !slices.ContainsFunc(n.ready.CommittedEntries, isChange) {
		return nil
	}
	records := make([][]byte, 0, len(n.ready.Entries)+1)
	for _, e := range n.ready.Entries {
		records = append(records, appendEntry(nil, e))
	}
	if n.mem.hard != n.synced {
		records = append(records, appendHard(nil, n.mem.hard))
	}
	if err := n.disk.Append(records...); err != nil {
		return err
	}
	n.synced = n.mem.hard
	return nil
}

func isChange(e *pb.Entry) bool { return e.GetType() == pb.EntryConfChangeV2 }

// rotate begins a new generation of the files with all that the node has in memory.
func (n *node) rotate() error {
	state, m := n.view.State(), n.meta()
	if n.ready != nil && n.ready.Snapshot.GetMetadata().GetIndex() > 0 {
		at := n.ready.Snapshot.GetMetadata()
		state = n.incoming.state
		m.index, m.term, m.conf, m.revision = at.GetIndex(), at.GetTerm(), at.GetConfState(), state.Revision()
	}
	first := m.index - n.mem.base // entries up to index are in the state
	if err := n.disk.Rotate(emitState(m, state.Range(""), n.hardAt(m.index), n.mem.entries[first:])); err != nil {
		return err
	}
	n.synced = n.mem.hard
	return nil
}

// hardAt returns the hard state with a commit index that is not below a state's index.
func (n *node) hardAt(index uint64) *pb.HardState {
	h := n.mem.hard
	if h.GetCommit() >= index {
		return h
	}
	return &pb.HardState{Term: new(max(h.GetTerm(), n.appliedAt)), Vote: new(h.GetVote()), Commit: new(index)}
}

func (n *node) meta() meta {
	return meta{member: n.member, generation: n.generation, index: n.applied, term: n.appliedAt, revision: n.view.Revision(), conf: n.conf}
}

// fail records that the files accept no writes. The content of the disk is unknown, and no message
// of the Ready was sent: none of them may claim that something is durable.
func (n *node) fail(cause error) {
	n.failed = fmt.Errorf("%w: %w", metadata.ErrFailed, cause)
	n.host.note(n)
	n.retry = 1
	n.retryAt = n.ticks + n.retry
	n.log.Error("replicated metadata cannot be written: this member neither votes nor answers until a new file can be written; check the disk",
		zap.Error(cause))
	n.abandon(fmt.Errorf("%w: %w", metadata.ErrUnknown, n.failed))
	// While this member is the only voter, no other one can lead.
	n.doubted = n.doubted || n.role.Leader == n.member && n.sole == 0
	n.lead(Leadership{})
}

// recover tries to begin a new generation. If that succeeds, the Ready whose write failed is
// durable, and the node continues with it.
func (n *node) recover() error {
	if n.failed == nil || n.ticks < n.retryAt {
		return nil
	}
	if err := n.rotate(); err != nil {
		n.retry = min(2*n.retry, maxRetryTicks)
		n.retryAt = n.ticks + n.retry
		n.log.Warn("replicated metadata still can't be written", zap.Error(err))
		return nil
	}
	n.failed = nil
	n.log.Info("replicated metadata can be written again")
	if n.ready != nil {
		if err := n.complete(); err != nil {
			return err
		}
	}
	n.observe()
	return n.report()
}

// complete finishes a durable Ready: it sends its messages, applies what is committed, and tells
// the library.
func (n *node) complete() error {
	ready := *n.ready
	n.ready = nil
	if at := ready.Snapshot.GetMetadata(); at.GetIndex() > 0 {
		n.view.Replace(n.incoming.state)
		n.applied, n.appliedAt, n.incoming = at.GetIndex(), at.GetTerm(), nil
		n.configure(at.GetConfState())
		n.log.Info("metadata snapshot installed", zap.Uint64("entry", n.applied), zap.Int64("revision", n.view.Revision()))
	}
	if !n.broken.Has(sendBeforePersist) {
		n.send(ready.Messages)
	}
	n.expectChange(ready.Entries)
	for _, e := range ready.CommittedEntries {
		if err := n.apply(e); err != nil {
			return err
		}
	}
	n.confirm(ready.ReadStates)
	n.raft.Advance(ready)
	n.mem.compact(n.applied)
	n.observe()
	n.compact()
	return nil
}

// compact begins a new generation if the log has grown. Another goroutine writes the snapshot: it
// may have many megabytes, and the heartbeats of a leader must not wait for the disk that long. The
// loop captures the keys, not their values, and appends to the new log meanwhile. An error costs
// nothing, because the files before the new generation stay in force.
func (n *node) compact() {
	if n.writing != nil || n.ticks < n.rotateAt || !n.disk.ShouldRotate() {
		return
	}
	n.rotateAt = n.ticks + maxRetryTicks
	g, err := n.disk.Begin()
	if err != nil {
		n.log.Warn("a new generation of the metadata files can't begin, the log grows", zap.Error(err))
		return
	}
	n.writing, n.slow = g, n.ticks+slowTicks
	keys, m, hard, entries := n.view.State().Keys(), n.meta(), n.hardAt(n.applied), n.mem.entries[n.applied-n.mem.base:]
	n.host.background(func() error {
		kv.Sort(keys)
		return g.Write(emitState(m, keys, hard, entries))
	}, (*node).compacted)
}

// compacted makes the written snapshot current.
func (n *node) compacted(written error) error {
	g := n.writing
	n.writing = nil
	if err := n.disk.Finish(g, written); err != nil {
		n.log.Warn("metadata snapshot can't be written, the log grows until the next attempt", zap.Error(err))
	}
	return nil
}

// confirm notes which question about the leadership a majority has answered. The library also
// returns answers to questions from before a failure. They show nothing: another leader may have
// been elected since.
func (n *node) confirm(answers []raft.ReadState) {
	for _, a := range answers {
		tick := binary.BigEndian.Uint64(a.RequestCtx)
		at, known := n.asked[tick]
		if !known {
			continue
		}
		n.confirmed, n.doubted = at, false
		for t := range n.asked {
			if t <= tick {
				delete(n.asked, t)
			}
		}
	}
}

// send hands messages to the host.
func (n *node) send(messages []*pb.Message) {
	quiet := n.quiet()
	for _, m := range messages {
		to := m.GetTo()
		n.stateAge(m)
		if quiet && (m.GetType() == pb.MsgHeartbeat || m.GetType() == pb.MsgApp) {
			continue
		}
		if m.GetType() == pb.MsgSnap {
			n.sendSnapshot(m)
			continue
		}
		n.host.send(to, append(newHeader(n.generation, n.member, to), marshal(m)...))
	}
}

// close writes the clean-stop mark.
func (n *node) close() error {
	n.abandon(fmt.Errorf("%w: %w", metadata.ErrUnknown, metadata.ErrClosed))
	if n.failed != nil {
		_ = n.disk.Close() // its failure was logged already
		return n.failed
	}
	var err error
	if n.mem.hard != n.synced { // the commit index, so that the next start shows the same state
		err = n.disk.Append(appendHard(nil, n.mem.hard))
	}
	if cerr := n.disk.Close(); err == nil {
		err = cerr
	}
	return err
}
