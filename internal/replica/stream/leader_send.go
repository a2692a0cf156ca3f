package stream

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
)

// Fill implements Source: verdicts first, then data of the subscriptions in turn, then what the
// follower is to sync, and high watermarks.
func (o *outgoing) Fill(v Vector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sendVerdicts(v)
	for !v.Full() && !o.ended && o.window < o.s.opt.Window {
		b, ok := o.ready.pop()
		if !ok {
			break
		}
		if o.send(v, b) {
			o.ready.push(b)
		}
	}
	if o.window >= o.s.opt.Window {
		o.s.count.waits.Add(1)
	}
	o.syncs = list(v, frame.SY, o.syncs)
	o.ends = list(v, frame.US, o.ends)
	o.sendHighs(v)
}

// sendVerdicts adds the answers: one part of the state of producers, so that data of other
// partitions pass between the parts, and what is complete. The caller holds mu.
func (o *outgoing) sendVerdicts(v Vector) {
	n, piece := 0, frame.MaxPiece
	for ; n < len(o.recalled) && piece > 0; n++ {
		x := &o.recalled[n]
		if len(x.producers) > 0 {
			size := min(len(x.producers), piece)
			d := frame.Producers{Slot: x.verdict.Slot, Offset: x.verdict.Offset}
			v.End(frame.PR, 0, d.AppendTo(v.Begin(frame.ProducersSize)), nil, x.producers[:size])
			x.producers = x.producers[size:]
			o.ahead -= size
			piece -= size
		}
		if len(x.producers) > 0 {
			break
		}
		o.verdicts = append(o.verdicts, x.verdict)
	}
	if o.recalled = slices.Delete(o.recalled, 0, n); n > 0 && len(o.resets) > 0 {
		o.wakeReader()
	}
	o.verdicts = list(v, frame.VD, o.verdicts)
}

// send adds a frame of a subscription, and reports whether there may be more. The caller holds mu.
func (o *outgoing) send(v Vector, b *sub) (more bool) {
	if b.ended || b.cold && b.span == nil {
		return false
	}
	if leader, epoch := b.part.p.Leader(); epoch != b.epoch || leader != o.s.opt.Self {
		o.endWith(b, frame.RoleChanged)
		return false
	}
	if o.stale(b.part) {
		return false
	}
	if to := b.part.p.SyncTo(); to > b.synced {
		b.synced = to
		o.syncs = append(o.syncs, frame.Sync{Slot: b.slot, LeaderEpoch: b.epoch, End: to})
	}
	if b.span == nil && b.from() == b.part.log.Ends().LogEnd { // as when only the high watermark moved
		o.noteHigh(b)
		return false
	}
	span, cold := b.span, b.cold
	if b.span, b.cold = nil, false; span == nil {
		s, ok, err := b.part.log.ReadSpanMemory(b.from(), frame.MaxDataChunk)
		switch {
		case err != nil:
			o.unreadable(b, err)
			return false
		case !ok:
			b.cold = true
			o.toRead = append(o.toRead, b)
			o.wakeReader()
			return false
		case s.End == s.Start:
			s.Release()
			o.noteHigh(b)
			return false
		}
		span = hold(s)
	}
	if span.Start != b.next { // the log start is in the middle of this batch
		if cold {
			o.coldUsed -= cost(&span.Span)
		}
		o.restart(b, span.Start)
		span.Release()
		return false
	}
	o.sendSpan(v, b, span, cold)
	return b.next < b.part.log.Ends().LogEnd // what is appended from now on wakes the stream again
}

// stale ends the connection if the follower has registered again since it dialed: its ends count
// only in a connection that states the new broker epoch. The caller holds mu.
func (o *outgoing) stale(t *part) bool {
	if t.p.Registered(o.conn.Broker()) <= o.conn.BrokerEpoch() {
		return false
	}
	o.ended = true
	o.conn.Close()
	return true
}

// cost is what a span takes of the window: more than its bytes, so that a gap also takes some.
func cost(s *storage.Span) int64 { return int64(s.Size) + frame.HeaderSize + frame.DataSize }

// sendSpan adds a DA frame. The caller holds mu.
func (o *outgoing) sendSpan(v Vector, b *sub, span *heldSpan, cold bool) {
	e := b.part.p.Ends()
	start := b.part.log.DurableStart() // a start that this broker could lose must not move those of others
	d := frame.Data{Slot: b.slot, LeaderEpoch: b.epoch, PrevEnd: span.Start, NextEnd: span.End, High: e.HighWatermark, LogStart: start}
	if span.Gap() {
		d.GapEpoch = max(span.Epoch, 0)
	}
	size := cost(&span.Span)
	b.next, b.high, b.start = span.End, e.HighWatermark, start
	b.sent = append(b.sent, flight{span.End, size, cold})
	o.window += size
	o.s.count.sentFrames.Add(1)
	o.s.count.sentBytes.Add(uint64(size))
	v.End(frame.DA, 0, d.AppendTo(v.Begin(frame.DataSize)), span, span.Parts...)
}

// restart tells a follower to begin again at the first offset of a batch in which the log start
// lies, because a batch can't be divided. The caller holds mu.
func (o *outgoing) restart(b *sub, base int64) {
	b.part.straddle.Store(&straddle{start: b.part.log.Ends().LogStart, base: base})
	o.resetLocked(b.part, b.epoch, b.slot, base)
	o.drop(b)
}

// straddle is the base offset of the batch in which a log start lies.
type straddle struct{ start, base int64 }

// baseOf returns the base offset of the first batch, or the log start if that is between batches.
// It is not known if only the disk has it; the goroutine that reads the disk then looks it up.
func (o *outgoing) baseOf(t *part, start int64) (base int64, known bool) {
	if x := t.straddle.Load(); x != nil && x.start == start {
		return x.base, true
	}
	if s, ok, err := t.log.ReadSpanMemory(start, 1); ok && err == nil {
		t.straddle.Store(&straddle{start: start, base: s.Start})
		s.Release()
		return s.Start, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.toFind == nil {
		o.toFind = make(map[*part]bool)
	}
	o.toFind[t] = true
	o.wakeReader()
	return 0, false
}

// findBases looks up the first batches that baseOf did not find.
func (o *outgoing) findBases() {
	o.mu.Lock()
	find := o.toFind
	o.toFind = nil
	o.mu.Unlock()
	for t := range find {
		start := t.log.Ends().LogStart
		s, err := t.log.ReadSpan(start, 1)
		if err != nil {
			o.s.say(o.s.opt.Logger.Warn, "cannot read the first batch of a log", t, zap.Int32("follower", o.conn.Broker()), err)
			t.p.ReadFailed(err)
			continue
		}
		t.straddle.Store(&straddle{start: start, base: s.Start})
		s.Release()
	}
}

// startFor returns the log start for a follower that ends at end: the base of the batch in which
// the start lies, if the follower has begun again there.
func (t *part) startFor(end, start int64) int64 {
	if x := t.straddle.Load(); x != nil && x.start == start && x.base == end {
		return end
	}
	return start
}

// unreadable ends a subscription whose data cannot be read. The caller holds mu.
func (o *outgoing) unreadable(b *sub, err error) {
	cause := frame.RoleChanged // the follower asks again, and gets another verdict
	switch {
	case errors.Is(err, storage.ErrOffsetOutOfRange):
	case errors.Is(err, storage.ErrCorrupt):
		cause, b.damaged = frame.LogDamaged, true
		o.s.say(o.s.opt.Logger.Error, "cannot send damaged records to a follower; see chronikctl cluster health", b.part,
			zap.Int32("follower", o.conn.Broker()), err)
		b.part.p.ReadFailed(err)
	default:
		cause = frame.DiskBusy
	}
	o.endWith(b, cause)
}

// endWith ends a subscription with a frame. The caller holds mu.
func (o *outgoing) endWith(b *sub, cause frame.Cause) {
	o.ends = append(o.ends, frame.End{Slot: b.slot, Cause: cause})
	o.drop(b)
}

// drop ends a subscription, whose follower will ask again. The caller holds mu.
func (o *outgoing) drop(b *sub) {
	o.endLocked(b)
	b.part.dropSub(b)
	o.gone = append(o.gone, b)
	o.wakeReader()
}

// report tells the partitions of subscriptions that drop has ended, and of damage. Fill must not do
// so, since that wakes the connection.
func (o *outgoing) report() {
	o.mu.Lock()
	gone := o.gone
	o.gone = nil
	o.mu.Unlock()
	for _, b := range gone {
		b.part.p.Unsubscribe(b.handle, progress.StreamGone)
		if b.damaged {
			b.part.p.ResignDamaged(b.epoch)
		}
	}
}

// noteHigh queues the high watermark for a follower that gets no data. The caller holds mu.
func (o *outgoing) noteHigh(b *sub) {
	e := b.part.p.Ends()
	if b.noted || e.HighWatermark == b.high && b.part.log.DurableStart() == b.start {
		return
	}
	b.noted = true
	o.waiting = append(o.waiting, b)
}

// sendHighs adds the HW frames, unless the last ones were sent a moment ago. The caller holds mu.
func (o *outgoing) sendHighs(v Vector) {
	if len(o.waiting) == 0 || v.Full() || o.ended {
		return
	}
	if !o.highs.begin() {
		return
	}
	for _, b := range o.waiting {
		b.noted = false
		e, start := b.part.p.Ends(), b.part.log.DurableStart()
		if !b.ended && (e.HighWatermark != b.high || start != b.start) {
			b.high, b.start = e.HighWatermark, start
			o.moves = append(o.moves, frame.High{Slot: b.slot, LeaderEpoch: b.epoch, High: b.high, LogStart: b.start})
		}
	}
	clear(o.waiting)
	o.waiting = o.waiting[:0]
	o.moves = list(v, frame.HW, o.moves)
}

// wakeReader wakes the goroutine that reads the disk.
func (o *outgoing) wakeReader() {
	select {
	case o.cold <- struct{}{}:
	default:
	}
}

// readDisk reads what is not in memory any longer, one span at a time, until the connection ends.
func (o *outgoing) readDisk(ended <-chan struct{}) {
	begin, total := time.Now(), int64(0)
	for {
		o.report()
		o.findBases()
		o.recall()
		b, next, wait := o.nextCold(time.Now())
		if b == nil {
			if !o.awaitCold(wait, ended) {
				return
			}
			continue
		}
		s, err := b.part.log.ReadSpan(next, frame.MaxDataChunk)
		if err == nil {
			if err = verify(s.Parts); err != nil {
				s.Release()
			}
		}
		total += int64(s.Size)
		o.charge(b, int64(s.Size))
		o.offer(b, s, err)
		o.conn.Kick()
		if rate := o.s.opt.CatchUpRate; rate > 0 {
			due := time.Duration(float64(total) / float64(rate) * float64(time.Second))
			if !pause.Wait(ended, time.Until(begin.Add(due))) {
				return
			}
		}
	}
}

// verify checks the checksums of batches.
func verify(parts [][]byte) error {
	for _, p := range parts {
		for len(p) > 0 {
			b, rest, err := record.Next(p)
			if err == nil {
				err = b.CheckCRC()
			}
			if err != nil {
				return errors.Join(storage.ErrCorrupt, err)
			}
			p = rest
		}
	}
	return nil
}

// awaitCold waits until nextCold may return another result, and reports whether the connection has
// not ended.
func (o *outgoing) awaitCold(wait time.Duration, ended <-chan struct{}) bool {
	var later <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		later = t.C
	}
	select {
	case <-o.cold:
	case <-later:
	case <-ended:
		return false
	}
	return true
}

// from returns the offset to read at: the log start if that lies in the batch to send next, or has
// moved past what the follower has. The caller holds mu.
func (b *sub) from() int64 { return max(b.next, b.part.log.Ends().LogStart) }

// offer passes what was read to the next write.
func (o *outgoing) offer(b *sub, s storage.Span, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case b.ended:
		if err == nil {
			s.Release()
		}
		return
	case err != nil:
		o.unreadable(b, err)
		return
	case s.End == s.Start: // the log has moved back
		s.Release()
		b.cold = false
	default:
		o.coldUsed += cost(&s)
		b.span = hold(s)
	}
	o.ready.push(b)
}
