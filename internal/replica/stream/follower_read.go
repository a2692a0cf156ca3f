package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
)

// read handles the leader's frames until the connection ends.
func (f *follower) read(c Conn) error {
	defer f.batch.HandOff()
	for {
		if !c.Buffered() {
			f.commit(c)
		}
		h, err := c.Next()
		if err != nil {
			return err
		}
		if h.Kind == frame.DA {
			if err := f.data(c, h); err != nil {
				return err
			}
			continue
		}
		b, err := c.Payload()
		if err != nil {
			return err
		}
		p, size := b.Bytes(), h.Kind.EntrySize()
		switch h.Kind {
		case frame.VD:
			err = each(p, size, frame.ParseVerdict, f.answered)
		case frame.HW:
			err = each(p, size, frame.ParseHigh, f.high)
		case frame.SY:
			err = each(p, size, frame.ParseSync, f.sync)
		case frame.US:
			err = each(p, size, frame.ParseEnd, f.ended)
		case frame.PR:
			err = f.producers(p)
		}
		b.Release()
		if err != nil {
			return err
		}
	}
}

// commit commits what the frames that arrived together append, and acknowledges it.
//
// If this broker has one log directory, a small group is written and synced on this goroutine, as
// requests of clients are (see journal.WriteGroup). That saves the wake-ups of the journal's
// goroutines and of the one that sends. With several directories it is left to the journals: one
// that hangs must not delay what arrives for the others.
func (f *follower) commit(c Conn) {
	switch {
	case f.batch.Empty():
	case f.s.several.Load():
		f.batch.HandOff()
	default:
		f.committing.Store(true)
		f.batch.Run()
		f.committing.Store(false)
		c.Push()
	}
}

// replicated is an append with the memory that it holds until the log has accepted it.
type replicated struct {
	replica.Replicated
	stream *following
	buf    *bufpool.Buffer
	size   int64
	held   int64 // of the budget
}

var appends = sync.Pool{New: func() any { return new(replicated) }}

// data appends the batches of a DA frame. If its slot has ended, or there is no memory, it drops
// the frame. The error ends the connection.
func (f *follower) data(c Conn, h frame.Header) error {
	p, err := c.Peek(frame.DataSize)
	if err != nil {
		return err
	}
	if len(p) < frame.DataSize {
		return fmt.Errorf("%w: a DA frame of %d bytes", frame.ErrMalformed, len(p))
	}
	slot := uint32(p[0])<<24 | uint32(p[1])<<16 | uint32(p[2])<<8 | uint32(p[3])
	x := f.at(slot) // a wrong one is found by the checksum
	if x == nil {
		return c.Discard()
	}
	size := int64(h.Length)
	held, ok := x.part.dir.reserve(f.s, size, &f.batch)
	if !ok {
		x.lost(slot, frame.DiskBusy)
		return c.Discard()
	}
	buf, err := c.Payload()
	if err != nil {
		x.part.dir.release(f.s, size, held)
		return err
	}
	d, batches, err := frame.ParseData(buf.Bytes())
	if err != nil || !x.accept(d, batches) {
		buf.Release()
		x.part.dir.release(f.s, size, held)
		return err
	}
	a := appends.Get().(*replicated)
	if a.Done == nil {
		a.Done = func(*replica.Replicated) { a.done() }
	}
	a.stream, a.buf, a.size, a.held = x, buf, size, held
	a.Epoch, a.PrevEnd, a.High, a.Batches = d.LeaderEpoch, d.PrevEnd, d.High, batches
	if a.GapEnd, a.GapEpoch = 0, 0; len(batches) == 0 {
		a.GapEnd, a.GapEpoch = d.NextEnd, d.GapEpoch
	}
	f.s.count.receivedFrames.Add(1)
	f.s.count.receivedBytes.Add(uint64(size))
	x.part.p.AppendReplicated(&a.Replicated, &f.batch)
	x.moveStart(d.LogStart)
	return nil
}

// Why a frame is refused whose batches are intact.
var (
	errOtherEpoch = errors.New("it is of another leader epoch than the subscription")
	errNotNext    = errors.New("it does not continue the log")
)

// accept reports whether a frame continues the log. Otherwise it ends the slot.
func (f *following) accept(d frame.Data, batches []byte) bool {
	end, err := checkBatches(d, batches, f.part.s.opt.broken.Has(trustBatches))
	t := f.part
	t.mu.Lock()
	cause := frame.Cause(0)
	switch {
	case f.state != live || f.slot != d.Slot:
		t.mu.Unlock()
		return false
	case d.LeaderEpoch != f.epoch:
		cause, err = frame.RoleChanged, errOtherEpoch
	case err != nil:
		cause = frame.LogDamaged
	case d.PrevEnd != f.next || end > d.NextEnd:
		cause, err = frame.Gap, errNotNext
	}
	next := f.next
	if cause == 0 {
		f.next = d.NextEnd
		t.pending++
		t.mu.Unlock()
		return true
	}
	t.mu.Unlock()
	t.s.say(t.s.opt.Logger.Warn, "a frame from a leader was refused; the replica asks again", t, zap.Int32("leader", f.from.leader), err,
		zap.Int64("at", d.PrevEnd), zap.Int64("expected", next), zap.Int32("epoch", d.LeaderEpoch))
	f.lost(d.Slot, cause)
	return false
}

// checkBatches verifies the checksums, order and epochs of batches, and returns where they end.
func checkBatches(d frame.Data, p []byte, trust bool) (end int64, err error) {
	end = d.PrevEnd
	for len(p) > 0 {
		b, rest, err := record.Next(p)
		if err == nil && !trust {
			err = b.CheckCRC()
		}
		if err != nil {
			return end, fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
		}
		next := b.LastOffset() + 1 // not above the base if the delta is negative, or the sum overflows
		if b.BaseOffset() < end || b.LeaderEpoch() > d.LeaderEpoch || next <= b.BaseOffset() {
			return end, fmt.Errorf("%w: batch at %d of epoch %d", storage.ErrCorrupt, b.BaseOffset(), b.LeaderEpoch())
		}
		end, p = next, rest
	}
	return end, nil
}

// lost ends a slot, and subscribes again after a pause.
func (f *following) lost(slot uint32, cause frame.Cause) {
	t := f.part
	t.mu.Lock()
	if f.slot == slot && (f.state == live || f.state == asked) {
		f.from.drop(slot)
		f.endLocked(cause, paused)
		f.again()
	}
	t.mu.Unlock()
	f.wake()
}

// done releases the memory of an append that the log has accepted or refused.
func (a *replicated) done() {
	f, err := a.stream, a.Err
	t := f.part
	a.buf.Release()
	t.dir.release(t.s, a.size, a.held)
	a.stream, a.buf, a.Batches = nil, nil, nil
	appends.Put(a)
	t.mu.Lock()
	t.pending--
	idle := t.pending == 0
	if err == nil {
		f.tries = 0 // only records show progress: a leader that cannot read accepts each subscription, and ends it
	}
	if err != nil && f.state == live && t.following.Load() == f {
		cause := frame.DiskFailed
		switch {
		case errors.Is(err, storage.ErrGap):
			cause = frame.Gap
		case errors.Is(err, storage.ErrFencedEpoch), errors.Is(err, replica.ErrFencedEpoch), errors.Is(err, replica.ErrNotLeader):
			cause = frame.RoleChanged
		}
		f.from.drop(f.slot)
		f.endLocked(cause, paused)
		f.again()
	}
	t.mu.Unlock()
	if idle || err != nil {
		if now := t.following.Load(); now != nil && now.stuck() {
			now.wake()
		}
		if err != nil {
			f.wake()
		}
	}
}

// stuck reports whether the stream waits for the appends in the queue, or must end because
// the log end has moved back.
func (f *following) stuck() bool {
	f.part.mu.Lock()
	defer f.part.mu.Unlock()
	return f.state == wanted || f.state == live && f.part.pending == 0 && f.part.log.Ends().LogEnd < f.next
}

// high handles an entry of HW.
func (f *follower) high(h frame.High) {
	x := f.at(h.Slot)
	if x == nil {
		return
	}
	if x.lives(h.Slot, h.LeaderEpoch) {
		_ = x.part.p.LeaderHigh(h.LeaderEpoch, h.High) // a role that changed makes it irrelevant
		x.moveStart(h.LogStart)
	}
}

// lives reports whether an entry of a slot and an epoch is for the stream as it is.
func (f *following) lives(slot uint32, epoch int32) bool {
	f.part.mu.Lock()
	defer f.part.mu.Unlock()
	return f.state == live && f.slot == slot && f.epoch == epoch
}

// sync handles an entry of SY.
func (f *follower) sync(s frame.Sync) {
	if x := f.at(s.Slot); x != nil && x.lives(s.Slot, s.LeaderEpoch) {
		x.part.log.Sync(s.End)
	}
}

// moveStart moves the log start to the leader's, on the directory's goroutine.
func (f *following) moveStart(start int64) {
	if start <= f.part.log.DurableStart() {
		return
	}
	t := f.part
	t.mu.Lock()
	ask := f.state == live && start > f.started && start <= f.next
	if f.named = max(f.named, start); ask {
		f.started = start
	}
	t.mu.Unlock()
	if ask {
		f.askStart(start)
	}
}

// askStart lets the directory's goroutine move the log start, or make durable what has moved.
func (f *following) askStart(start int64) {
	t := f.part
	add(t.dir, &t.dir.moves, f, storage.StartMove{Log: t.log, To: start, Only: f.still()}, t.dir.dir.MoveStarts, (*following).startMoved)
}

// ended handles an entry of US: the leader has ended the slot.
func (f *follower) ended(e frame.End) {
	if x := f.at(e.Slot); x != nil {
		x.lost(e.Slot, 0)
	}
}

// producers adds a part of what the leader knows of the producers of a log that is to begin again.
func (f *follower) producers(p []byte) error {
	d, state, err := frame.ParseProducers(p)
	if err != nil {
		return err
	}
	if x := f.at(d.Slot); x != nil {
		x.part.mu.Lock()
		defer x.part.mu.Unlock()
		switch {
		case x.slot != d.Slot:
		case len(x.known)+len(state) > storage.MaxProducers:
			return fmt.Errorf("%w: the state of producers has more than %d bytes", frame.ErrMalformed, storage.MaxProducers)
		default:
			x.known = append(x.known, state...)
		}
	}
	return nil
}

// answered handles the leader's answer to a subscription.
func (f *follower) answered(v frame.Verdict) {
	x := f.at(v.Slot)
	if x == nil {
		return
	}
	t := x.part
	t.mu.Lock()
	later := v.Decision == frame.Reset || v.Decision == frame.Whole
	valid := x.slot == v.Slot && (x.state == asked || x.state == live && later)
	next := x.next
	t.mu.Unlock()
	switch {
	case !valid:
	case v.Decision == frame.Accepted && v.Offset == next:
		if err := t.p.Follow(x.epoch); err != nil {
			return // the role is changing
		}
		t.mu.Lock()
		switch {
		case x.slot == v.Slot && x.state == asked:
			x.state = live
			x.halted.Store(0)
			x.dirty.Store(true)
		case t.following.Load() == x: // it ended meanwhile
			t.p.Unfollow()
		}
		t.mu.Unlock()
		x.wake()
	case v.Decision == frame.Whole:
		t.p.CompareTo(x.epoch, v.Offset)
	case v.Decision == frame.Diverged:
		end := v.Offset
		if v.Epoch >= 0 {
			if _, own := t.log.EpochEnd(v.Epoch); own >= 0 {
				end = progress.Divergence(end, own)
			}
		}
		x.truncate(v.Slot, end, false)
	case v.Decision == frame.Reset:
		x.truncate(v.Slot, v.Offset, true)
	default:
		x.lost(v.Slot, 0)
	}
}

// truncate cuts the log, unless that would remove committed records. Then the replica stops.
func (f *following) truncate(slot uint32, end int64, reset bool) {
	t := f.part
	if reset && !t.p.MayReset(f.epoch, end) {
		f.lost(slot, 0)
		return
	}
	lost, err := t.p.MayTruncate(f.epoch, end)
	if t.s.opt.broken.Has(resetAnything) && errors.Is(err, replica.ErrDiverged) {
		err = nil
	}
	if lost {
		t.s.opt.Logger.Error("committed records are discarded after an unclean election; see chronikctl cluster health",
			zap.Stringer("partition", t.p),
			zap.Int64("from", end), zap.Int64("to", t.log.Ends().LogEnd))
	}
	t.mu.Lock()
	if f.slot != slot {
		t.mu.Unlock()
		return
	}
	f.from.drop(slot)
	known := f.known
	switch {
	case err == nil:
		f.endLocked(0, cutting)
		t.cutting = true
	case errors.Is(err, replica.ErrDiverged):
		f.off = frame.Offline{Slot: slot, Cause: frame.BelowHigh}
		f.halt(frame.BelowHigh)
		t.s.count.refused.Add(1)
		f.endLocked(0, stopped)
	default:
		f.endLocked(0, stopped) // the role is changing
	}
	t.mu.Unlock()
	if err == nil {
		if gone := t.log.Ends().LogEnd - end; gone > 0 && !reset {
			t.s.count.truncated.Add(uint64(gone))
		}
		f.cutAt(end, reset, known)
		return
	}
	if errors.Is(err, replica.ErrDiverged) {
		t.s.opt.Logger.Error("a replica cannot follow its leader: committed records would be lost; see chronikctl cluster health",
			zap.Error(err))
	}
	f.wake()
}

// reserve takes memory for a frame, and waits for it a moment; release returns it. held is what it
// took of the budget: nothing for the only frame of a directory if the budget is used up, so that
// no directory waits for another one. A directory that holds half of the memory gets no more. If
// there is no room, it first commits the batch, whose appends may hold the missing memory.
func (d *directory) reserve(s *Streams, n int64, batch *groupcommit.Batch) (held int64, ok bool) {
	used := d.used.Load()
	if used > 0 && used+n > d.most {
		batch.HandOff()
		if used = d.used.Load(); used > 0 && used+n > d.most {
			return 0, false
		}
	}
	if !s.follow.TryAcquire(n) {
		batch.HandOff()
		used = d.used.Load()
		if used == 0 {
			d.used.Add(n)
			return 0, true
		}
		ctx, cancel := context.WithTimeout(s.ctx, busyWait)
		err := s.follow.Acquire(ctx, n)
		cancel()
		if err != nil {
			return 0, false
		}
	}
	d.used.Add(n)
	return n, true
}

func (d *directory) release(s *Streams, n, held int64) {
	d.used.Add(-n)
	s.follow.Release(held)
}
