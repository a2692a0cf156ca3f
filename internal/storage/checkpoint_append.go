package storage

import (
	"errors"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// sweepBytes is the size of the entries after which a sweep lets other commits pass.
const sweepBytes = 1 << 20

// committed is the part of a log's durable checkpoint entry that later commits depend on.
type committed struct {
	offset      int64 // recovery point; -1: no checkpoint has the log
	acksWritten bool
	led         int32
	sum         uint64      // of the entry without its producers
	needs       journal.LSN // a start needs no earlier frame for the entry
}

// committedOf describes an entry. It uses buf, which it returns for the next call.
func committedOf(lc *checkpoint.Log, needs journal.LSN, buf []byte) (committed, []byte) {
	sum, buf := lc.Sum(buf)
	return committed{lc.Offset, lc.AcksWritten, lc.Led, sum, needs}, buf
}

// setCommitted records that an entry of the log is durable. The caller holds Dir.ckptMu.
func (l *Log) setCommitted(c committed) {
	l.committed = c
	l.led.noted.Store(c.led)
	if c.acksWritten {
		l.setMarked()
	}
}

// entry is the checkpoint entry of a log, as it is going to be committed.
type entry struct {
	l    *Log
	lc   *checkpoint.Log
	same bool // the producers are those of the last commit, and are not in lc
	committed
}

// entryOf returns the entry of a log, or the tombstone if the log is deleted; nil if there is
// neither, or if another log has been created with its id since. next is above the LSNs of all
// frames whose owners had been notified before the call. The caller holds ckptMu.
func (d *Dir) entryOf(l *Log, next journal.LSN) (e *entry, deleted bool) {
	d.mu.Lock()
	now := d.logs[l.id]
	t, deleted := d.deleted[l.id]
	d.mu.Unlock()
	switch {
	case now == l:
		return d.liveEntry(l, next), false
	case now == nil && deleted:
		return &entry{l: l, lc: &t.Log}, true
	default:
		return nil, false
	}
}

// liveEntry is entryOf for a log that is not deleted.
func (d *Dir) liveEntry(l *Log, next journal.LSN) *entry {
	lc, oldest := l.checkpointed(false)
	cut := l.isCut() // one that begins now, or that lc is of: it may be to the offset where the log ended
	same := l.committed.offset == lc.Offset && !cut && d.store.Knows(l.id)
	if !same {
		lc, oldest = l.checkpointed(true)
	}
	e := &entry{l: l, lc: &lc, same: same}
	e.committed, d.sumBuf = committedOf(&lc, min(oldest, next), d.sumBuf)
	return e
}

// delta is what one commit appends to the checkpoint.
type delta struct {
	checkpoint.Change
	entries []*entry
	tombs   []checkpoint.Log
	size    int
}

func (d *Dir) newChange() *delta { return &delta{Change: checkpoint.Change{Header: d.nextHeader()}} }

func (c *delta) add(e *entry) {
	c.entries = append(c.entries, e)
	c.Logs = append(c.Logs, checkpoint.Update{Log: e.lc, SameProducers: e.same})
	c.size += 200 + 16*len(e.lc.Segments)
	if !e.same {
		c.size += len(e.lc.Producers)
	}
}

// addTombstone adds a tombstone.
func (c *delta) addTombstone(lc *checkpoint.Log) {
	c.tombs = append(c.tombs, *lc)
	c.Logs = append(c.Logs, checkpoint.Update{Log: lc})
}

// tombstonesStored records that tombstones are durable.
func (d *Dir) tombstonesStored(tombs []checkpoint.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range tombs {
		if t, ok := d.deleted[tombs[i].ID]; ok && t.LSN == tombs[i].LSN {
			t.stored = true
			d.deleted[t.ID] = t
		}
	}
}

// needsWhole reports whether the next commit must write all logs. After a failure of the journal, a
// new file may have begun, which no frame links to the old redo pointer. The caller holds ckptMu.
func (d *Dir) needsWhole() bool {
	return d.unsure.Load() || d.store.NeedsAll() || !d.is(loglife.Journal)
}

// append commits a change. The caller holds ckptMu, and needsWhole was false.
func (d *Dir) append(c *delta) error {
	err := d.store.Append(&c.Change)
	if errors.Is(err, statelog.ErrTooLarge) {
		return d.checkpointAll(nil, false)
	}
	if err != nil {
		return d.uncommitted(err)
	}
	d.setLast(c.Header)
	for _, e := range c.entries {
		e.l.setCommitted(e.committed)
	}
	d.tombstonesStored(c.tombs)
	if d.store.Grown() {
		signal(d.renewals)
	}
	return nil
}

// commitMoved commits the logs whose entries differ from the durable ones, and then the redo
// pointer that all entries allow. Others may commit in between.
func (d *Dir) commitMoved() error {
	for logs, done := d.Logs(), false; !done; {
		var err error
		if logs, done, err = d.commitSome(logs); err != nil {
			return err
		}
	}
	return nil
}

// commitSome commits the first of some logs whose entries differ, and returns the rest. If none is
// left, it moves the redo pointer with the same commit.
func (d *Dir) commitSome(logs []*Log) (rest []*Log, done bool, err error) {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	if d.needsWhole() {
		return nil, true, d.checkpointAll(nil, false)
	}
	c, next := d.newChange(), d.journal.Notified()+1
	for len(logs) > 0 && c.size < sweepBytes {
		l := logs[0]
		logs = logs[1:]
		e, deleted := d.entryOf(l, next)
		switch {
		case e == nil || deleted:
		case e.same && e.sum == l.committed.sum || d.opt.broken.has(skipMoved):
			l.committed.needs = e.needs
		default:
			c.add(e)
		}
	}
	if len(logs) > 0 {
		return logs, false, d.append(c)
	}
	redo := d.redoAfter(c, next)
	c.Redo = d.journal.Oldest(redo)
	if d.opt.broken.has(earlyRelease) {
		d.journal.Release(c.Redo)
	}
	if err := d.append(c); err != nil {
		return nil, true, err
	}
	d.forgetTombstones(redo)
	d.journal.Release(c.Redo)
	return nil, true, nil
}

// redoAfter adds the tombstones that no commit has to a change, and returns the LSN of the oldest
// frame that a start needs after it. next is that of the change. A log that has just been deleted
// needs its frames until its tombstone is durable.
func (d *Dir) redoAfter(c *delta, next journal.LSN) journal.LSN {
	logs, deleted := d.logsAndDeleted()
	for _, t := range deleted {
		if !t.stored && !d.opt.broken.has(skipTombstones) {
			c.addTombstone(&t.Log)
		}
	}
	changed := make(map[*Log]journal.LSN, len(c.entries))
	for _, e := range c.entries {
		changed[e.l] = e.needs
	}
	redo := next
	for _, l := range logs {
		if needs, ok := changed[l]; ok {
			redo = min(redo, needs)
		} else if l.committed.offset >= 0 { // otherwise it has no frames
			redo = min(redo, l.committed.needs)
		}
	}
	return redo
}

// forgetTombstones forgets deleted logs that need no tombstone after a commit with a redo pointer.
// The next whole checkpoint leaves them out.
func (d *Dir) forgetTombstones(redo journal.LSN) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, t := range d.deleted {
		if t.stored && t.gone && !t.Swapping && t.LSN < redo {
			delete(d.deleted, id)
		}
	}
}

// renewCheckpoints is the goroutine that writes a whole checkpoint when the changes have grown.
func (d *Dir) renewCheckpoints() {
	label.Goroutine("storage checkpoint", d.path)
	for {
		select {
		case <-d.quit:
			return
		case <-d.renewals:
			if err := d.renewCheckpoint(); err != nil {
				d.logOnce(nil, "checkpoint could not be rewritten; its changes stay in use", err)
			}
		}
	}
}

// renewCheckpoint writes a whole checkpoint if the changes have grown. Commits do not wait for it:
// they count after it, whatever it has of their logs.
func (d *Dir) renewCheckpoint() error {
	d.ckptMu.Lock()
	if d.needsWhole() || !d.store.Grown() {
		d.ckptMu.Unlock()
		return nil
	}
	w, err := d.store.Begin(d.last)
	logs, deleted := d.logsAndDeleted()
	d.ckptMu.Unlock()
	if err != nil {
		return err
	}
	stopped := false
	err = w.Write(func(yield func(*checkpoint.Log) bool) {
		for _, l := range logs {
			lc, _ := l.checkpointed(true)
			if stopped = d.stopping(); stopped || !yield(&lc) {
				return
			}
		}
		for _, t := range deleted {
			if !yield(&t.Log) {
				return
			}
		}
	})
	if err == nil && stopped {
		err = ErrClosed
	}
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return d.store.Finish(w, err)
}
