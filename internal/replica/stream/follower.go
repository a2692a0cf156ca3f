package stream

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/storage"
)

// follower has the streams from one leader. It implements Source.
type follower struct {
	s      *Streams
	leader int32
	dialer Dialer
	ready  ring[*following] // may have something to send
	conn   atomic.Pointer[connected]
	turn   atomic.Uint64 // the number of the connection; its slots are its own

	// batch collects appends; it belongs to the reader. While the reader commits, wake leaves it to
	// the reader to send.
	batch      groupcommit.Batch
	committing atomic.Bool

	mu      sync.Mutex
	all     map[*following]bool
	slots   map[uint32]*following
	last    uint32 // the highest slot on this connection
	waiting map[*following]time.Time
	retry   *time.Timer
	retryAt time.Time // when retry fires

	// Of Fill, which reuses them.
	requests []request
	acks     []frame.Ack
	starts   []frame.Start
	ends     []frame.End
	offline  []frame.Offline
}

// connected is a connection to the leader.
type connected struct{ Conn }

// request is a frame.Subscription as an entry.
type request struct{ frame.Subscription }

func (r request) AppendTo(dst []byte) []byte { return r.Subscription.AppendTo(dst) }

// state is that of a stream from the leader.
type state uint8

const (
	wanted  state = iota // to be subscribed as soon as the log has no appends queued
	asked                // the leader has not answered
	live                 // frames are appended
	cutting              // the log is being truncated
	paused               // to be subscribed later
	stopped              // the replica cannot follow in this epoch, or the role has ended
)

// following is the stream of a partition from the leader in one leader epoch.
type following struct {
	part  *part
	from  *follower
	epoch int32
	dirty atomic.Bool // an end has advanced since the last AK
	// halted is the frame.Cause for which the replica does not follow in this epoch, 0 for none.
	halted atomic.Uint32

	queued bool // of the ring

	// Guarded by part.mu.
	state    state
	slot     uint32 // 0: none
	turn     uint64 // of the connection that has, or had, the slot
	next     int64  // the offset at which the next frame begins
	through  bool   // of the subscription; see frame.Subscription.WriteThrough
	tries    int
	named    int64   // the log start that the leader named last
	started  int64   // the log start that was last asked of the directory
	pinning  pinning // of the start that the log has in memory
	reported int64   // the log start that the leader knows
	end      frame.End
	off      frame.Offline
	known    []byte // of the producers, which the leader sent for the log to begin again
}

// pinning reports whether the start of the log has to be durable before the stream subscribes.
type pinning uint8

const (
	pinDone   pinning = iota
	pinWanted         // the pause of the stream ends with a request to the directory
	pinAsked          // the directory's goroutine has the request
)

func (f *following) inRing() *bool { return &f.queued }

// wake makes the connection check the stream.
func (f *following) wake() {
	f.from.ready.push(f)
	if c := f.from.conn.Load(); c != nil && !f.from.committing.Load() {
		c.Kick()
	}
}

// endLocked ends the slot for a cause, with a frame unless there is none, and sets the next state.
// The caller holds part.mu, and then calls wake, or later if the state is paused.
//
// The replica loses its leader here, and in answered if the slot ended while it was accepted. The
// end of a stream that another one has replaced says nothing about that one.
func (f *following) endLocked(cause frame.Cause, next state) {
	if (f.state == live || f.state == asked) && f.part.following.Load() == f {
		f.part.p.Unfollow()
	}
	if f.slot != 0 && cause != 0 {
		f.end = frame.End{Slot: f.slot, Cause: cause}
	}
	f.slot, f.state, f.known = 0, next, nil
}

// followerLocked returns the streams from a leader, which it begins to dial. The caller holds
// Streams.mu.
func (s *Streams) followerLocked(leader int32) *follower {
	f := s.followers[leader]
	if f == nil {
		f = &follower{s: s, leader: leader, all: make(map[*following]bool), waiting: make(map[*following]time.Time)}
		s.followers[leader] = f
		f.dialer = s.opt.Links.Follow(leader, f.run)
	}
	return f
}

func (f *follower) add(x *following) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[x] = true
}

func (f *follower) forget(x *following) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, x)
	delete(f.waiting, x)
}

// run serves a connection to the leader until it ends.
func (f *follower) run(c Conn) {
	f.mu.Lock()
	f.slots, f.last = make(map[uint32]*following), 0
	f.turn.Add(1)
	all := f.list()
	f.mu.Unlock()
	f.conn.Store(&connected{c})
	f.s.count.connections.Add(1)
	for _, x := range all {
		x.disconnected() // the former connection may have asked for it at its very end
		f.ready.push(x)
	}
	c.Start(f)
	err := f.read(c)
	c.Close()
	f.conn.Store(nil)
	f.mu.Lock()
	clear(f.slots)
	all = f.list()
	f.mu.Unlock()
	for _, x := range all {
		x.disconnected()
	}
	f.s.opt.Logger.Info("replica streams from a leader ended", zap.Int32("broker", f.leader), zap.Error(err))
}

// list returns all streams. The caller holds mu.
func (f *follower) list() []*following {
	all := make([]*following, 0, len(f.all))
	for x := range f.all {
		all = append(all, x)
	}
	return all
}

// halt states that the replica does not follow in this epoch.
func (f *following) halt(why frame.Cause) {
	f.halted.Store(uint32(why))
	f.part.s.halted.Name(f.part)
}

// disconnected ends the slot because the connection ended.
func (f *following) disconnected() {
	f.part.mu.Lock()
	defer f.part.mu.Unlock()
	next := f.state
	// The leader may not have heard why a replica cannot follow, and has to know.
	unheard := next == stopped && f.halted.Load() == uint32(frame.BelowHigh)
	if next == asked || next == live || next == paused || unheard {
		next = wanted
	}
	f.endLocked(0, next)
	f.end, f.off = frame.End{}, frame.Offline{}
}

// again subscribes again, after a pause that grows with each attempt. The caller holds part.mu, and
// the slot has ended.
func (f *following) again() {
	f.tries++
	f.state = paused
	f.from.wakeAt(f, time.Now().Add(backoff.Spread(f.tries))) // all followers of a leader retry against it
}

// wakeAt wakes a stream later.
func (f *follower) wakeAt(x *following, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.s.ctx.Err() != nil {
		return
	}
	f.waiting[x] = at
	switch {
	case f.retry == nil:
		f.retry, f.retryAt = time.AfterFunc(time.Until(at), f.resume), at
	case len(f.waiting) == 1 || at.Before(f.retryAt):
		f.retryAt = at
		f.retry.Reset(time.Until(at))
	}
}

// resume wakes the streams whose pause has ended.
func (f *follower) resume() {
	now := time.Now()
	var due []*following
	f.mu.Lock()
	var next time.Time
	for x, at := range f.waiting {
		if !at.After(now) {
			due = append(due, x)
			delete(f.waiting, x)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !next.IsZero() && f.s.ctx.Err() == nil {
		wait := max(next.Sub(now), firstPause) // each run examines all that wait, perhaps thousands
		f.retryAt = now.Add(wait)
		f.retry.Reset(wait)
	}
	f.mu.Unlock()
	for _, x := range due {
		x.part.mu.Lock()
		if x.state == paused {
			x.state = wanted
		}
		start, named := x.named, x.state == live && x.named > x.started
		unkept := x.state == wanted && x.pinning == pinWanted
		if unkept {
			x.pinning = pinAsked
		}
		x.part.mu.Unlock()
		switch {
		case named:
			x.moveStart(start)
		case unkept:
			x.askStart(storage.PresentStart)
		}
		x.wake()
	}
}

// Fill implements Source.
func (f *follower) Fill(v Vector) {
	for !v.Full() {
		n := 0
		for ; n < frame.SB.MaxEntries(); n++ {
			x, ok := f.ready.pop()
			if !ok {
				break
			}
			f.collect(x)
		}
		if n == 0 {
			return
		}
		f.ends = list(v, frame.US, f.ends)
		f.offline = list(v, frame.OF, f.offline)
		f.requests = list(v, frame.SB, f.requests)
		f.starts = list(v, frame.LS, f.starts)
		f.acks = list(v, frame.AK, f.acks)
	}
}

// collect adds the entries of a stream to the lists.
func (f *follower) collect(x *following) {
	t := x.part
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.state == live {
		x.checkLocked()
	}
	if x.turn != f.turn.Load() { // what it has to say is about a slot of a former connection
		x.end, x.off = frame.End{}, frame.Offline{}
	}
	if x.end.Slot != 0 {
		f.drop(x.end.Slot)
		f.ends = append(f.ends, x.end)
		x.end = frame.End{}
	}
	if x.off.Slot != 0 {
		f.offline = append(f.offline, x.off)
		x.off = frame.Offline{}
	}
	if t.following.Load() != x {
		return
	}
	switch x.state {
	case wanted:
		if !t.cutting && t.pending == 0 {
			f.subscribe(x)
		}
	case live:
		if start := t.log.DurableStart(); start > x.reported {
			x.reported = start
			f.starts = append(f.starts, frame.Start{Slot: x.slot, LogStart: start})
		}
		if x.dirty.Swap(false) {
			e := t.log.Ends()
			written := min(e.Written, x.next) // records that were just taken back may still seem written
			f.acks = append(f.acks, frame.Ack{Slot: x.slot, LeaderEpoch: x.epoch, Written: written, Durable: min(e.Durable, written)})
		}
	}
}

// checkLocked ends the slot if the log does not end where the leader continues. The caller holds
// part.mu.
func (f *following) checkLocked() {
	t := f.part
	switch {
	case t.log.Offline() != nil:
		f.off = frame.Offline{Slot: f.slot, Cause: frame.DiskFailed}
		f.from.drop(f.slot)
		f.endLocked(0, paused)
		f.again()
	case t.pending > 0 || t.s.opt.broken.Has(ignoreEnds):
	case t.log.Ends().LogEnd < f.next: // a failed journal has taken records back
		f.endLocked(frame.Gap, wanted)
	case t.log.AcksWritten() != f.through: // the leader counts other ends from now on
		f.endLocked(frame.RoleChanged, wanted)
	}
}

// subscribe adds a request. The caller holds part.mu.
func (f *follower) subscribe(x *following) {
	t := x.part
	if t.log.Offline() != nil || t.log.Flaw() != nil { // a damaged log is replaced, or its directory comes back
		x.again()
		return
	}
	last, end := t.log.LastEpoch()
	if last > x.epoch {
		if t.log.LeaderEpoch() > x.epoch {
			return // this broker leads since then, and RoleChanged ends this stream next
		}
		x.state = stopped
		x.halt(frame.EpochAhead)
		t.s.opt.Logger.Error("a replica has records of a later leader epoch than its leader; it does not follow; see chronikctl cluster health",
			zap.Stringer("partition", t.p), zap.Int32("epoch", last), zap.Int32("leader's", x.epoch))
		return
	}
	e := t.log.Ends()
	if e.LogStart > t.log.DurableStart() {
		// It has moved in memory while this broker led, or followed another one, and the
		// checkpoint failed or is not written yet. The leader has to see the start that the log
		// keeps.
		x.pinning = max(x.pinning, pinWanted)
		x.again()
		return
	}
	f.mu.Lock()
	f.last++
	x.slot, x.turn = f.last, f.turn.Load()
	f.slots[x.slot] = x
	f.mu.Unlock()
	id := t.log.ID()
	x.state, x.next, x.through = asked, end, t.log.AcksWritten()
	x.named, x.started, x.reported = 0, 0, min(t.log.DurableStart(), end)
	r := request{frame.Subscription{
		Slot: x.slot, Topic: id.Topic, Partition: id.Partition, LeaderEpoch: x.epoch, Directory: t.log.Dir().ID(),
		LastEpoch: last, LogEnd: end, LogStart: x.reported, Written: min(e.Written, end),
		WriteThrough: x.through, Serial: t.s.serial.Add(1),
	}}
	r.Durable = min(e.Durable, r.Written)
	f.requests = append(f.requests, r)
}

func (f *follower) drop(slot uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.slots, slot)
}

// at returns the stream of a slot, nil if the slot has ended.
func (f *follower) at(slot uint32) *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots[slot]
}

// still is the condition of changes that the leader asked for: another leader may need others, and
// a log that leads changes on its own.
func (f *following) still() storage.Only {
	return storage.Only{Is: !f.part.s.opt.broken.Has(cutLeaders), Epoch: f.epoch}
}

// cutAt truncates the log of a stream, or empties it and gives it what is known of the producers
// below, on the directory's goroutine.
func (f *following) cutAt(end int64, reset bool, known []byte) {
	d := f.part.dir
	add(d, &d.cuts, f, storage.Truncation{Log: f.part.log, End: end, Reset: reset, Producers: known, Only: f.still()}, d.dir.Truncate,
		(*following).truncated)
}
