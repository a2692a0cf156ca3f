package journal

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/label"
)

// batch is the outcome of one write or datasync.
type batch struct {
	entries []*Entry
	written bool // the entries are written; if not set, they are durable, or lost because of err
	err     error
	failed  bool // the journal stopped because of err
	// notified, if not 0, is the LSN through which every owner has been notified after this batch.
	// through, if not 0, is the LSN through which written entries have become durable.
	notified, through LSN
}

// fail stops the journal after a failed write or datasync: nothing is written to the current file
// again, and the owner of every entry that was not reported receives the error.
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

// emptyLocked appends all queued entries to lost and empties the queues.
func (j *Journal) emptyLocked(lost []*Entry) []*Entry {
	if j.part != nil {
		lost, j.part = append(lost, j.part.entry), nil
	}
	for _, s := range j.ready.all() {
		lost = append(lost, s.queue.all()...)
		s.queue.reset()
		s.listed = false
	}
	j.ready.reset()
	j.waiting.clear()
	return lost
}

// notifyLater passes a batch to the notifier.
func (j *Journal) notifyLater(b batch) {
	j.notifying.Add(1)
	j.outcomes <- b
}

// notifyNow calls the owners itself unless the notifier still has earlier batches. The caller must
// be busy, so that no further batches are added.
func (j *Journal) notifyNow(b batch) {
	if j.notifying.Load() > 0 {
		j.notifyLater(b)
		return
	}
	j.notifyOwners(b)
}

// notify is the notifier goroutine: it calls owners while the writer works on the next group.
func (j *Journal) notify() {
	label.Goroutine("journal notify", j.opt.Dir)
	defer j.done.Done()
	defer j.space.stop()
	for b := range j.outcomes {
		j.notifyOwners(b)
		if j.notifying.Add(-1) == 0 {
			j.mu.Lock() // a caller of Rotate that counted the batch is waiting by now
			j.idle.Broadcast()
			j.mu.Unlock()
		}
	}
}

// notifyOwners notifies owners of the outcome of their entries, one batch after the other.
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
	if b.through > 0 {
		j.opt.DurableThrough(b.through)
	}
	if b.failed {
		j.opt.Failed(b.err)
	}
	j.recycle(b.entries)
}

// slice and recycle reuse entry slices instead of allocating new ones.
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
