package journal

import (
	"fmt"
	"time"
)

// quantum is how many bytes of one stream are taken before the next stream has
// its turn, so that 50 MB of one partition don't hold up small ones.
const quantum = 64 << 10

// copyBelow: payloads up to this size are copied next to their frame header; a
// piece of a vectored write costs more than copying them.
const copyBelow = 4 << 10

// writer holds what only the writer goroutine touches.
type writer struct {
	scratch []byte
	bufs    [][]byte
	group   []*Entry // written, not yet synced
	records int
	bytes   int64
}

// write is the writer goroutine: one group after the other, until Close or, for
// a while, a failure.
func (j *Journal) write() {
	defer j.done.Done()
	defer close(j.told)
	var w writer
	for j.await() {
		if err := j.writeGroup(&w); err != nil {
			j.fail(&w, err)
		}
	}
}

// await sleeps until a group should be written; false ends the writer.
func (j *Journal) await() bool {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		j.mu.Lock()
		if j.state == closed || j.state == closing && j.waiting.entries == 0 {
			j.state = closed
			j.mu.Unlock()
			return false
		}
		closeNow, wait := false, time.Hour
		if j.state != stopped {
			closeNow, wait = j.waiting.verdict(time.Now(), j.opt.Absent)
			if j.state == closing {
				closeNow = true
			}
			if closeNow && !j.space.room(j.needLocked()) {
				j.roomless = true
				closeNow, wait = j.waiting.controls > 0 && j.space.reserve(j.needLocked()), time.Hour
			} else {
				j.roomless = false
			}
		}
		if closeNow {
			j.waiting.armed = false
			j.mu.Unlock()
			return true
		}
		j.waiting.armed = j.waiting.entries > 0
		j.parked = true
		j.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-j.wake:
		case <-timer.C:
		}
		j.mu.Lock()
		j.parked = false
		j.mu.Unlock()
	}
}

// needLocked is an upper bound of the next write's size: what waits, as far as
// one write takes it, but at least the entry that is first in turn.
func (j *Journal) needLocked() int64 {
	n := min(j.waiting.bytes+int64(j.waiting.entries)*(frameHeader+8), j.maxWrite)
	for _, s := range j.ready {
		if len(s.queue) > 0 {
			return max(n, s.queue[0].size()) + sector
		}
	}
	return n + sector
}

// writeGroup writes the group that waits and makes it durable. An impatient
// group is synced after every write of ~1 MiB; a patient one once, at its end.
func (j *Journal) writeGroup(w *writer) error {
	limit := j.groupLimit()
	for {
		entries, more, patient := j.take(limit.records-w.records, limit.bytes-w.bytes)
		if len(entries) == 0 {
			break
		}
		if err := j.writeEntries(w, entries); err != nil {
			w.group = append(w.group, entries...)
			return err
		}
		w.group = append(w.group, entries...)
		j.recycle(entries)
		if !more || !patient || w.records >= limit.records || w.bytes >= limit.bytes {
			break
		}
	}
	if len(w.group) == 0 {
		return nil
	}
	start := time.Now()
	if err := j.space.sync(); err != nil {
		return err
	}
	took := time.Since(start)
	j.durable.Store(uint64(w.group[len(w.group)-1].LSN))
	if j.opt.Synced != nil {
		j.opt.Synced(GroupStats{Entries: len(w.group), Records: w.records, Bytes: w.bytes, Sync: took})
	}
	j.told <- batch{entries: w.group}
	*w = writer{scratch: w.scratch, bufs: w.bufs, group: j.slice()}
	return nil
}

type limits struct {
	records int
	bytes   int64
}

// groupLimit is what one datasync may cover: the smallest limits among the
// waiting.
func (j *Journal) groupLimit() limits {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := limits{records: j.waiting.maxRecords, bytes: j.waiting.maxBytes}
	if l.records == 0 { // only control entries wait
		l = limits{records: 1 << 30, bytes: 1 << 40}
	}
	return l
}

// take removes up to one write's worth of entries from the queues, round-robin
// over the streams. It takes at least one entry if one may be written. patient
// says that none of them minds waiting for the group's other writes.
func (j *Journal) take(records int, bytes int64) (taken []*Entry, more, patient bool) {
	taken = j.slice()
	patient = true
	j.mu.Lock()
	defer j.mu.Unlock()
	onlyControl := !j.space.room(j.needLocked())
	if onlyControl && !j.space.reserve(j.needLocked()) {
		return taken, false, false
	}
	budget := j.maxWrite
	var skipped []*Stream
	for len(j.ready) > 0 && budget > 0 && records > 0 && bytes > 0 {
		s := j.ready[0]
		j.ready = j.ready[1:]
		got := int64(0)
		for len(s.queue) > 0 && got < quantum && budget > 0 && records > 0 && bytes > 0 {
			e := s.queue[0]
			if onlyControl && !e.control() || len(taken) > 0 && e.size() > budget {
				break
			}
			s.queue[0] = nil
			s.queue = s.queue[1:]
			taken = append(taken, e)
			n := e.size()
			got += n
			budget -= n
			records -= e.Records
			bytes -= int64(len(e.Payload))
			patient = patient && e.Profile != nil && e.Profile.MaxWait > 0
		}
		switch {
		case len(s.queue) == 0:
			s.listed, s.queue = false, nil
		case got == 0:
			skipped = append(skipped, s)
		default:
			j.ready = append(j.ready, s)
		}
		if got == 0 && !onlyControl && len(s.queue) > 0 {
			break // the next in turn doesn't fit into this write
		}
	}
	j.ready = append(skipped, j.ready...)
	j.rebuildWindowLocked()
	return taken, len(j.ready) > 0, patient
}

// writeEntries numbers the entries and writes their frames with one vectored
// write at the next 512-byte boundary.
func (j *Journal) writeEntries(w *writer, entries []*Entry) error {
	var total int64
	small := 0
	for _, e := range entries {
		total += e.size()
		small += frameHeader + 8
		if len(e.Payload) <= copyBelow {
			small += len(e.Payload)
		}
	}
	f, err := j.space.place(total+sector, j.next)
	if err != nil {
		return err
	}
	if cap(w.scratch) < small+sector {
		w.scratch = make([]byte, 0, small+sector)
	}
	w.scratch, w.bufs = w.scratch[:0], w.bufs[:0]
	start, n := 0, int64(0)
	durable := j.Durable()
	for i, e := range entries {
		e.LSN = j.next
		j.next++
		at := len(w.scratch)
		w.scratch = w.scratch[:at+frameHeader]
		putFrame(w.scratch[at:], e, f.salt, durable, i == len(entries)-1)
		if len(e.Payload) <= copyBelow {
			w.scratch = append(w.scratch, e.Payload...)
		} else {
			w.bufs = append(w.bufs, w.scratch[start:], e.Payload)
			start = len(w.scratch)
		}
		n += frameHeader + int64(len(e.Payload))
		to := align(n, 8)
		if i == len(entries)-1 {
			to = align(n, sector)
		}
		w.scratch = append(w.scratch, zeros[:to-n]...)
		n = to
		w.records += e.Records
		w.bytes += int64(len(e.Payload))
	}
	w.bufs = append(w.bufs, w.scratch[start:])
	j.assigned.Store(uint64(j.next - 1))
	if err := f.write(w.bufs, n, entries[len(entries)-1].LSN); err != nil {
		return fmt.Errorf("write %d journal entries: %w", len(entries), err)
	}
	return nil
}

var zeros [sector]byte

// fail ends a life of the journal: nothing is written to its file again, and
// every entry that is not durable is told.
func (j *Journal) fail(w *writer, err error) {
	j.mu.Lock()
	lost := w.group
	for _, s := range j.ready {
		lost = append(lost, s.queue...)
		s.queue, s.listed = nil, false
	}
	j.ready, j.waiting = nil, window{}
	if j.state == running {
		j.state = stopped
	}
	j.mu.Unlock()
	*w = writer{scratch: w.scratch, bufs: w.bufs}
	j.space.abandon()
	j.told <- batch{entries: lost, err: fmt.Errorf("journal %s: %w", j.opt.Dir, err)}
}

// notify is the notifier goroutine: it tells owners while the writer is at the
// next group.
func (j *Journal) notify() {
	defer j.done.Done()
	defer j.space.stop()
	for b := range j.told {
		for _, e := range b.entries {
			lsn := e.LSN
			e.Owner.Durable(e, b.err)
			if b.err == nil {
				j.notified.Store(uint64(lsn))
			}
		}
		if b.err != nil && j.opt.Failed != nil {
			j.opt.Failed(b.err)
		}
		j.recycle(b.entries)
	}
}

// slice and recycle pass entry slices around instead of allocating them.
func (j *Journal) slice() []*Entry {
	select {
	case s := <-j.free:
		return s[:0]
	default:
		return make([]*Entry, 0, 64)
	}
}

func (j *Journal) recycle(s []*Entry) {
	clear(s)
	select {
	case j.free <- s:
	default:
	}
}
