package journal

import "fmt"

// batch is what one write or datasync decided.
type batch struct {
	entries []*Entry
	written bool // the entries are written; not set: they are durable, or lost to err
	err     error
	failed  bool // the journal stands still because of err
	// notified, where it is not 0, is the LSN through which every owner has been
	// notified after this batch, and through the one through which written
	// entries have become durable.
	notified, through LSN
}

// fail ends a life of the journal: nothing is written to its file again, and
// every entry that is not durable is told.
func (j *Journal) fail(err error) {
	g := &j.group
	j.space.abandon()
	j.mu.Lock()
	lost := j.emptyLocked(g.entries)
	if j.state == running {
		j.state = stopped
	}
	j.mu.Unlock()
	g.entries, g.records, g.bytes, g.unsynced = nil, 0, 0, unsynced{}
	j.notifyLater(batch{entries: lost, err: fmt.Errorf("journal %s: %w", j.opt.Dir, err), failed: true})
}

// emptyLocked appends everything queued to lost and empties the queues.
func (j *Journal) emptyLocked(lost []*Entry) []*Entry {
	for _, s := range j.ready.all() {
		lost = append(lost, s.queue.all()...)
		s.queue.reset()
		s.listed = false
	}
	j.ready.reset()
	j.waiting.clear()
	return lost
}

// notifyLater leaves a batch to the notifier.
func (j *Journal) notifyLater(b batch) {
	j.telling.Add(1)
	j.told <- b
}

// notifyNow tells the owners unless the notifier is not through with those before; the
// caller is busy, so that there will be no more of them.
func (j *Journal) notifyNow(b batch) {
	if j.telling.Load() > 0 {
		j.notifyLater(b)
		return
	}
	j.notifyOwners(b)
}

// notify is the notifier goroutine: it tells owners while the writer is at the
// next group.
func (j *Journal) notify() {
	defer j.done.Done()
	defer j.space.stop()
	for b := range j.told {
		j.notifyOwners(b)
		if j.telling.Add(-1) == 0 {
			j.mu.Lock() // a caller of Rotate that saw the batch waits by now
			j.idle.Broadcast()
			j.mu.Unlock()
		}
	}
}

// notifyOwners notifies owners of what became of their entries. Batches are told one after the
// other.
func (j *Journal) notifyOwners(b batch) {
	for _, e := range b.entries {
		if b.written {
			e.Owner.Written(e)
		} else {
			e.Owner.Durable(e, b.err)
		}
	}
	if b.notified > 0 {
		j.notified.Store(uint64(b.notified))
	}
	if b.through > 0 && j.opt.DurableThrough != nil {
		j.opt.DurableThrough(b.through)
	}
	if b.failed && j.opt.Failed != nil {
		j.opt.Failed(b.err)
	}
	j.recycle(b.entries)
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
