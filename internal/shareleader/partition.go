package shareleader

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// state is the phase of a Partition; doc.go draws them.
type state int8

const (
	loading state = iota
	ready
	leaving
	ended
)

const (
	// callTime bounds a call to the coordinator.
	callTime = 5 * time.Second
	// linger is how long a change waits for others if no request waits for its write.
	linger = 100 * time.Millisecond
	// answerTime is after how long an acknowledgement is answered whose write has no answer. It may
	// be stored or not; the member repeats it.
	answerTime = 30 * time.Second
	// writeTime is how old a write may be before no more records are acquired.
	writeTime = 5 * time.Second
	// idleTime is for how long a share partition without sessions stays in memory.
	idleTime = 5 * time.Minute
	// laterTime is for how long a load waits for metadata with the leader epoch that the stored
	// state has, before it has the epoch raised.
	laterTime = 2 * time.Second
	// A timer that is lateAlarm late shows that the process stood still: requests that were sent
	// meanwhile are unread, and stallGrace is the time to read them.
	lateAlarm  = time.Second
	stallGrace = 5 * time.Second
	// pressed is when acquisitions are tried again that were refused for memory.
	pressed = 100 * time.Millisecond
)

// callBackoff bounds the pause before a call to the coordinator that failed is repeated.
var callBackoff = pause.Backoff{First: 20 * time.Millisecond, Most: time.Second}

// Bytes of memory that are counted in addition to the window.
const (
	partitionBytes = 1024
	memberBytes    = 160
	// windowBytes is what the first lock of a window takes: its node, its grant and its hold.
	windowBytes = 4096
	// reservedRecords is for how many records at most there must be memory before a fetch reads.
	reservedRecords = 4096
	// widestBatch is how many offsets a batch may have that is acquired whole although it exceeds
	// the window: the largest share.partition.max.record.locks.
	widestBatch = 10_000
)

// maxMarks is how many marks the state may get before no more records are acquired. A write that
// makes the stored state larger than sharestate.MaxMarks is refused.
const maxMarks = sharestate.MaxMarks / 4

// Partition is a share partition on its leader. All methods may be called concurrently; none blocks
// for a disk or the network.
type Partition struct {
	l   *Leader
	key format.Key
	log Log

	mu    sync.Mutex
	after []func() // run when mu is released
	state state
	err   *kerr.Error // why it has ended
	cfg   Settings
	epoch int32  // leader epoch in which it loads or serves
	load  uint64 // counts loads: answers of earlier ones are ignored
	id    sharestate.Identity
	w     *window.Window // nil unless ready

	members map[string]*member
	last    window.Member // that was given
	users   int           // sessions that name it
	waiters []waiter
	queue   list.List // of *Queued
	turn    *Queued   // that reads now
	missed  bool      // another one asked for the turn meanwhile
	allowed *Queued   // may have the turn although others wait longer
	serving bool      // a goroutine serves the queue
	again   bool      // and there was an event since it began
	bytes   int64     // counted in Options.Memory

	write   *window.Write // under way
	began   time.Duration // when the write began
	tries   int           // repetitions of a call in a row
	alarm   *time.Timer
	armed   time.Duration // when alarm fires; 0: it does not
	due     time.Duration // of changes without a waiting request, 0: none
	dueAt   time.Duration // until when what has changed may be written, 0: always
	retryAt time.Duration // of the call that failed, 0: none
	retry   func()        // with mu
	pressAt time.Duration // 0: no acquisition was refused for memory
	idleAt  time.Duration // 0: sessions name it
	bell    bool          // it is watched in the purgatory
	letters letters

	operators []operator // that wait for the load, see whenReady

	// What a Survey reports: what the window and its predecessors have counted, of that what was
	// seen of this window, when the load began, and since when and at which SPSO the window is
	// full.
	total        *total
	counts, seen window.Counts
	loadAt       time.Duration
	unloaded     error // why the last try to load failed, nil: its coordinator has not answered
	fullAt       time.Duration
	fullStart    int64
}

// member is a member of the group that has fetched or acknowledged.
type member struct {
	number   window.Member
	sessions int
}

// waiter is an acknowledgement that waits for a write.
type waiter struct {
	seq  uint64
	at   time.Duration
	done func(*kerr.Error)
}

func (p *Partition) lock() { p.mu.Lock() }

// unlock ends each use: it counts the memory, sets the alarm, and then runs what must not run with
// the lock.
func (p *Partition) unlock() {
	p.arm()
	p.count()
	p.tally()
	after := p.after
	p.after = nil
	p.mu.Unlock()
	for _, f := range after {
		f()
	}
}

func (p *Partition) do(f func()) { p.after = append(p.after, f) }

// count counts the memory.
func (p *Partition) count() {
	n := int64(0)
	if p.state != ended {
		n = partitionBytes + int64(len(p.key.Group)) + int64(len(p.members))*memberBytes
	}
	if p.w != nil {
		n += int64(p.w.Stats().Bytes)
	}
	p.l.opt.Memory.Count(n - p.bytes)
	p.bytes = n
}

// begin begins the first load.
func (p *Partition) begin() {
	p.idleAt = p.l.now() + idleTime
	_, p.epoch = p.log.Leader()
	p.loadAt = p.l.now()
	p.watch()
	p.peek()
}

// watch registers for new records, the end of transactions, and changes of the role and of the log
// start.
func (p *Partition) watch() {
	p.bell = true
	key := purgatory.Key{Topic: p.key.Topic, Partition: p.key.Partition}
	p.do(func() { p.l.opt.Park.Watch((*bell)(p), time.Now().Add(forever), key) })
}

// forever is longer than a process runs.
const forever = 20 * 365 * 24 * time.Hour

// bell is a Partition as an operation that waits for events of its data partition.
type bell Partition

// TryComplete implements purgatory.Op. It completes when the share partition has ended.
func (b *bell) TryComplete(int) bool {
	p := (*Partition)(b)
	p.lock()
	defer p.unlock()
	if p.leads() {
		p.wake()
	}
	return p.state == leaving || p.state == ended
}

// Expire implements purgatory.Op: the broker stops.
func (b *bell) Expire() {
	p := (*Partition)(b)
	p.lock()
	p.bell = false
	p.end(kerr.NotLeaderForPartition)
	p.unlock()
}

// writes reports whether p may write.
func (p *Partition) writes() bool { return p.state == leaving || p.leads() }

// leads reports whether this broker leads in the epoch of p. If not, p ends.
func (p *Partition) leads() bool {
	if p.state == leaving || p.state == ended {
		return false
	}
	broker, epoch := p.log.Leader()
	switch {
	case broker == p.l.opt.Self && epoch == p.epoch:
		return true
	case broker == p.l.opt.Self && p.l.opt.Broken.Has(LeadAnyEpoch):
		return true
	}
	p.end(kerr.NotLeaderForPartition)
	return false
}

// end ends p. If it is ready, what has changed is written first: that counts unless another leader
// has opened the state. Then the memory is dropped, and what waits is answered with an error.
func (p *Partition) end(why *kerr.Error) {
	if p.state == leaving || p.state == ended {
		return
	}
	p.err = why
	if p.state == ready && !p.l.opt.Broken.Has(LeaveAtOnce) {
		p.w.Close()
		p.state, p.dueAt = leaving, p.l.now()+writeTime
		p.pump()
	}
	p.left()
	p.wake()
	if p.bell {
		p.bell = false
		key := purgatory.Key{Topic: p.key.Topic, Partition: p.key.Partition}
		// Not from here, because the purgatory may be waiting for this very operation.
		p.do(func() { p.l.opt.Go(func() { p.l.opt.Park.Check(key) }) })
	}
}

// left drops the memory of a share partition that has ended, and has nothing to write any more.
func (p *Partition) left() {
	if p.state == leaving && p.w.Pending() != 0 {
		return
	}
	p.state = ended
	p.drop(p.err)
	p.loaded(p.err)
	p.l.remove(p)
}

// abandon ends the writes of a share partition that has ended.
func (p *Partition) abandon() {
	if p.state == leaving {
		p.w.Refused() // the write under way may be stored or not
		p.left()
	}
}

// drop drops the memory. Acknowledgements that wait may be stored or not.
func (p *Partition) drop(why *kerr.Error) {
	p.load++
	p.tally()
	p.w, p.write, p.retry, p.retryAt, p.due, p.dueAt, p.pressAt = nil, nil, nil, 0, 0, 0, 0
	maps.DeleteFunc(p.members, func(_ string, m *member) bool { return m.sessions == 0 })
	p.letters = letters{seen: p.letters.seen}
	p.answer(why, func(waiter) bool { return true })
}

// answer answers the acknowledgements that are chosen.
func (p *Partition) answer(code *kerr.Error, which func(waiter) bool) {
	kept := p.waiters[:0]
	for _, w := range p.waiters {
		if !which(w) {
			kept = append(kept, w)
			continue
		}
		p.do(func() { w.done(code) })
	}
	clear(p.waiters[len(kept):])
	p.waiters = kept
}

// reload drops the memory and loads.
func (p *Partition) reload(why *kerr.Error) {
	p.drop(why)
	p.state, p.tries, p.loadAt, p.unloaded = loading, 0, p.l.now(), nil
	p.again = true
	p.peek()
}

// later calls f, with the lock, after a pause that gets longer.
func (p *Partition) later(f func()) {
	p.tries++
	p.retryAt, p.retry = p.l.now()+callBackoff.After(p.tries), f
}

// peek begins a load.
func (p *Partition) peek() {
	if !p.leads() {
		return
	}
	p.load++
	load := p.load
	p.do(func() {
		ctx, cancel := context.WithTimeout(p.l.ctx, callTime)
		p.l.opt.Coordinator.Peek(ctx, []format.Key{p.key}, func(found []sharestate.Peeked) {
			cancel()
			p.lock()
			defer p.unlock()
			if p.load == load && p.leads() {
				p.peeked(found[0])
			}
		})
	})
}

func (p *Partition) peeked(found sharestate.Peeked) {
	switch {
	case again(found.Err):
		p.reloadLater(nil)
		return
	case found.Err != nil:
		p.fail(found.Err, refusal(found.Err))
		return
	case found.Leader > p.epoch:
		// Another broker leads, and the metadata here do not show it yet. Or no broker ever will in
		// that epoch: the metadata were restored.
		if p.l.opt.Raise != nil && p.l.now()-p.loadAt >= laterTime {
			epoch := p.epoch
			p.do(func() { p.l.opt.Raise(p.key.Topic, p.key.Partition, epoch, found.Leader) })
		}
		p.reloadLater(errLedLater)
		return
	}
	// A group that starts at a time needs an index that may be on the disk.
	load, epoch, cfg := p.load, p.epoch, p.cfg
	p.do(func() {
		p.l.opt.Go(func() {
			open, err := p.opening(found, epoch, cfg)
			p.lock()
			defer p.unlock()
			switch {
			case p.load != load || !p.leads():
			case err != nil:
				p.reloadLater(err)
			default:
				p.id = found.ID
				p.open(open)
			}
		})
	})
}

// opening returns the request that opens a state.
func (p *Partition) opening(found sharestate.Peeked, epoch int32, cfg Settings) (sharestate.Opening, error) {
	o := sharestate.Opening{Key: p.key, ID: found.ID, Recorded: found.Leader, Leader: epoch, Cut: -1}
	known, err := p.log.Epochs(epoch)
	if err != nil {
		return o, err
	}
	o.Epochs = known.Latter(format.MaxEpochs)
	if found.Leader >= 0 && !p.l.opt.Broken.Has(ForgetCut) {
		start := p.log.Ends().LogStart
		if o.Cut = found.Cut(&known, start); p.l.opt.Broken.Has(CutAtLast) {
			_, end := known.End(found.Leader, math.MaxInt64)
			o.Cut = max(end, start)
		}
	}
	if found.Started {
		return o, nil
	}
	ts := cfg.Reset
	if cfg.Since > 0 {
		ts = time.Now().Add(-cfg.Since).UnixMilli()
	}
	at, err := p.log.ListOffset(ts, epoch, cfg.Committed)
	if err == nil && at.Offset < 0 { // all records are older
		at, err = p.log.ListOffset(replica.Latest, epoch, cfg.Committed)
	}
	o.Start = at.Offset
	return o, err
}

// epochsIn returns a function that returns the leader epochs of the log, as long as this broker
// leads in a leader epoch.
func (p *Partition) epochsIn(now int32) func() (epochs.Cache, error) {
	return func() (epochs.Cache, error) { return p.log.Epochs(now) }
}

func (p *Partition) open(o sharestate.Opening) {
	load := p.load
	p.do(func() {
		ctx, cancel := context.WithTimeout(p.l.ctx, callTime)
		p.l.opt.Coordinator.Open(ctx, []sharestate.Opening{o}, func(opened []sharestate.Opened) {
			cancel()
			p.lock()
			defer p.unlock()
			if p.load == load && p.leads() {
				p.opened(opened[0])
			}
		})
	})
}

func (p *Partition) opened(o sharestate.Opened) {
	switch {
	case again(o.Err):
		p.reloadLater(nil)
		return
	case o.Err == kerr.FencedLeaderEpoch, o.Err == kerr.FencedStateEpoch:
		p.reloadLater(refusal(o.Err))
		return
	case o.Err != nil:
		p.fail(o.Err, refusal(o.Err))
		return
	}
	w, err := window.Load(p.cfg.window(p.l.opt.Window), o.Stored)
	if err != nil {
		p.fail(kerr.KafkaStorageError, fmt.Errorf("its stored state is invalid: %w", err))
		return
	}
	p.wasLoaded()
	p.l.loads.Add(1)
	p.w, p.state, p.tries = w, ready, 0
	if p.l.closing.Load() {
		w.Close()
	}
	if p.l.opt.Letters != nil {
		p.letters.by = p.l.opt.Letters.Copier(Source{Key: p.key, ID: p.id, Epoch: p.epoch, Epochs: p.epochsIn(p.epoch)})
	}
	p.copyLetters()
	p.loaded(nil)
	p.wake()
}

// again reports whether a call has failed on its way, so that it is repeated.
func again(code *kerr.Error) bool {
	switch code {
	case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
		return true
	}
	return false
}

// loadError returns the error of a fetch for a state that cannot be loaded. Clients know none of a
// group that has no position in a partition; they ask for the metadata, and repeat the request.
func loadError(code *kerr.Error) *kerr.Error {
	if errors.Is(code, kerr.KafkaStorageError) {
		return kerr.KafkaStorageError
	}
	return kerr.UnknownTopicOrPartition
}

// window returns the settings of a window.
func (s *Settings) window(broken window.Broken) window.Config {
	return window.Config{Broken: broken, Locks: s.Locks, Deliveries: s.Deliveries, Lock: s.Lock, Retry: s.Retry, RetryMax: s.RetryMax,
		DeadLetters: !s.Letters.none()}
}

// current applies settings.
func (p *Partition) current(s Settings) {
	if p.cfg == s {
		return
	}
	if p.cfg = s; p.w != nil {
		p.w.SetConfig(s.window(p.l.opt.Window))
		p.letters.at, p.letters.tries = 0, 0
		p.copyLetters()
	}
}

// member returns the number of a member. It stays the same as long as the window exists, so that
// the member's repetitions are known.
func (p *Partition) member(id string) *member {
	m := p.members[id]
	if m == nil {
		p.forget()
		p.last++
		m = &member{number: p.last}
		p.members[id] = m
	}
	return m
}

// forget forgets the members without a session if no write can be repeated that has changes of
// them.
func (p *Partition) forget() {
	const few = 16
	if p.w == nil || len(p.members) < few+2*p.users || p.write != nil || p.w.Due() {
		return
	}
	for id, m := range p.members {
		if m.sessions == 0 && !p.w.Holds(m.number) {
			delete(p.members, id)
		}
	}
}

// used counts a session that names p, or one that no longer does.
func (p *Partition) used(s *Session, n int) {
	p.lock()
	defer p.unlock()
	p.users += n
	p.idleAt = 0
	switch p.users {
	case 0:
		p.idleAt = p.l.now() + idleTime
	case n: // the first one
		p.verify()
	}
	if p.state != ended {
		p.member(s.key.member).sessions += n
	}
}

// verify loads if the stored state is another one than that of the window. It is called for the
// first session: the offsets of a group without members may have been altered, and the notification
// may be lost. Without a write, the leader would not learn that.
func (p *Partition) verify() {
	if p.state != ready {
		return
	}
	load := p.load
	p.do(func() {
		ctx, cancel := context.WithTimeout(p.l.ctx, callTime)
		p.l.opt.Coordinator.Peek(ctx, []format.Key{p.key}, func(found []sharestate.Peeked) {
			cancel()
			p.lock()
			defer p.unlock()
			if f := found[0]; p.load == load && p.state == ready && !again(f.Err) && f.ID != p.id {
				p.reload(kerr.NotLeaderForPartition)
			}
		})
	})
}

// release releases what a member holds: its session has ended.
func (p *Partition) release(id string) {
	p.lock()
	defer p.unlock()
	m := p.members[id]
	if m == nil || p.w == nil || p.l.opt.Broken.Has(KeepLocks) {
		return
	}
	if _, available := p.w.Release(m.number); available {
		p.wake()
	}
	p.pump()
}

// holds reports whether a member holds records.
func (p *Partition) holds(id string) bool {
	p.lock()
	defer p.unlock()
	m := p.members[id]
	return m != nil && p.w != nil && p.w.Holds(m.number)
}

// Stats returns the numbers of the window; false: it is not loaded.
func (p *Partition) Stats() (window.Stats, bool) {
	p.lock()
	defer p.unlock()
	if p.w == nil {
		return window.Stats{}, false
	}
	return p.w.Stats(), true
}
