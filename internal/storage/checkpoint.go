package storage

import (
	"errors"
	"math"
	"path"

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// Everything except batches is committed with a checkpoint: the creation, deletion and truncation
// of logs, changes of the log start, segment swaps of a compaction, and the state of a damaged log.
// A change of a few logs is appended to the checkpoint (commit); to advance the redo pointer, all
// logs are written (checkpoint).
//
// There are two copies in separate directories. They are written together, and an action that
// depends on a checkpoint waits until both are durable. Recovery reads only the first copy; if that
// is lost, a repair restores it from the other.
const (
	// CheckpointDir and CheckpointMirror are directories in a log directory.
	CheckpointDir    = "checkpoint"
	CheckpointMirror = "checkpoint.copy"
)

// openCheckpoint reads the checkpoint; the state is nil if there is none.
func (d *Dir) openCheckpoint() (*checkpoint.State, error) {
	store, state, err := checkpoint.Open(checkpoint.Options{
		FS: d.opt.FS, Dir: path.Join(d.path, CheckpointDir), Mirror: path.Join(d.path, CheckpointMirror), Log: d.log,
	})
	if err == nil {
		d.store = store
	}
	return state, err
}

// closeCheckpoint closes the checkpoint's files. The checkpoint is complete without it.
func (d *Dir) closeCheckpoint() error {
	if d.store == nil {
		return nil
	}
	return d.store.Close()
}

// checkpoint makes the recovery points of all logs durable, with the redo pointer that they allow,
// and releases the journal files before it. A caller that has just begun a new journal file passes
// its position.
//
// After an error the old or the new version may be on the disk: the caller must do nothing that is
// wrong under either.
func (d *Dir) checkpoint(fresh *journal.Position) error {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return d.checkpointAll(fresh, false)
}

// checkpointAll is checkpoint for a caller that holds ckptMu. clean marks a clean stop, unless a
// journal file before the fresh one is still needed.
func (d *Dir) checkpointAll(fresh *journal.Position, clean bool) error {
	unsure := d.unsure.Swap(false) // before the logs are collected, which no longer include failed creations
	// The notified LSN must be read before the logs: a frame whose owner is notified later has a
	// larger LSN.
	h, redo := d.nextHeader(), d.journal.Notified()+1
	logs, deleted := d.logsAndDeleted()
	entries := make([]committed, len(logs))
	err := d.store.WriteEach(func(yield func(*checkpoint.Log) bool) {
		for i, l := range logs {
			lc, oldest := l.checkpointed()
			redo, entries[i] = min(redo, oldest), committed{lc.Offset, lc.AcksWritten}
			if !yield(&lc) {
				return
			}
		}
		for _, lc := range d.tombstones(deleted, redo) {
			if !yield(&lc) {
				return
			}
		}
	}, func() checkpoint.Header {
		if fresh != nil && redo >= fresh.LSN {
			h.Redo, h.Clean = *fresh, clean
		} else {
			h.Redo = d.journal.Oldest(redo)
		}
		if d.opt.broken.has(earlyRelease) {
			d.journal.Release(h.Redo)
		}
		return h
	})
	if err != nil {
		if unsure {
			d.unsure.Store(true)
		}
		return err
	}
	d.setLast(h)
	for i, l := range logs {
		l.setCommitted(entries[i])
	}
	d.journal.Release(h.Redo)
	return nil
}

// nextHeader returns the header of the next checkpoint, with the redo pointer of the last one.
func (d *Dir) nextHeader() checkpoint.Header {
	durable := min(d.journal.Notified(), d.journal.Durable())
	return checkpoint.Header{Seq: d.last.Seq + 1, Redo: d.last.Redo, Durable: durable, Dir: d.ident.Dir, Journal: d.ident.Journal,
		Boot: d.storedBoot(), Found: d.reported, Owner: *d.owner.Load()}
}

// writeCheckpoint writes a whole checkpoint of a directory that is not in use.
func (d *Dir) writeCheckpoint(c *checkpoint.State) error {
	if err := d.store.WriteAll(c); err != nil {
		return err
	}
	d.setLast(c.Header)
	return nil
}

// commit makes the states of some logs, including deleted ones, durable. Its cost depends only on
// these logs. The redo pointer stays. Errors mean the same as for checkpoint.
func (d *Dir) commit(logs ...*Log) error {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return d.commitLocked(logs...)
}

// commitLocked is commit for a caller that holds ckptMu.
func (d *Dir) commitLocked(logs ...*Log) error {
	if d.unsure.Load() || d.store.NeedsAll() {
		return d.checkpointAll(nil, false)
	}
	c := checkpoint.Change{Header: d.nextHeader()}
	if !d.is(loglife.Journal) { // a new journal file may have begun, which no frame links to the old redo pointer
		return d.checkpointAll(nil, false)
	}
	var named []*Log
	for _, l := range logs {
		if lc := d.entryOf(l); lc != nil {
			c.Logs = append(c.Logs, checkpoint.Update{Log: lc, SameProducers: l.committed == lc.Offset && !l.isCut()})
			named = append(named, l)
		}
	}
	err := d.store.Append(&c)
	if errors.Is(err, statelog.ErrTooLarge) {
		return d.checkpointAll(nil, false)
	}
	if err != nil {
		return err
	}
	d.setLast(c.Header)
	for i, l := range named {
		l.setCommitted(committed{c.Logs[i].Offset, c.Logs[i].AcksWritten})
	}
	return nil
}

// committed is the part of a log's durable checkpoint entry that later commits depend on.
type committed struct {
	offset      int64
	acksWritten bool
}

// setCommitted records that an entry of the log is durable. The caller holds Dir.ckptMu.
func (l *Log) setCommitted(c committed) {
	l.committed = c.offset
	if c.acksWritten {
		l.setMarked()
	}
}

// isCut reports whether a truncation or reset is unfinished. A checkpoint holds the producers below
// the recovery point, which stay the same while the recovery point does. A reset is the exception:
// it forgets the producers and may keep the recovery point.
func (l *Log) isCut() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.cut != nil
}

// commitRule is commit, unless a test has removed the rule that the commit comes first.
func (d *Dir) commitRule(r rule, logs ...*Log) error {
	if d.opt.broken.has(r) {
		return nil
	}
	return d.commit(logs...)
}

// entryOf returns the checkpoint entry of a log, nil if there is none. There is none either if
// another log has been created with its id since.
func (d *Dir) entryOf(l *Log) *checkpoint.Log {
	d.mu.Lock()
	now := d.logs[l.id]
	t, deleted := d.deleted[l.id]
	d.mu.Unlock()
	switch {
	case now == l:
		lc, _ := l.checkpointed()
		return &lc
	case now == nil && deleted:
		return &t.Log
	default:
		return nil
	}
}

// checkpointed returns the checkpoint entry of the log, and the LSN of the oldest frame that the
// log still needs.
func (l *Log) checkpointed() (checkpoint.Log, journal.LSN) {
	high := recoveredHigh{}
	high.offset, high.epoch = l.observer().High() // which must be called without locks
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.life.found != nil {
		lc := *l.life.found
		lc.Lossy = l.acks.lossy.Load()
		return lc, math.MaxUint64
	}
	lc := checkpoint.Log{ID: l.id, Topic: l.topic, Start: l.logStart.Load(), Point: l.rp}
	lc.Clean = l.firstDirty
	l.storeHighLocked(&lc, high)
	l.markLocked(&lc)
	if x := l.life.swap; x != nil && !x.placed && !l.dir.opt.broken.has(skipSwapEntry) {
		lc.Swapping, lc.Swap = true, x.old[0].Base() // a start completes it
	}
	lc.Epochs = l.epochs.Below(l.rp.Offset + 1) // later epochs come back with the frames
	until := l.rp.Offset
	if l.dir.opt.broken.has(aheadTransactions) {
		until = l.flushed
	}
	lc.Producers = l.producers.Append(nil, until)
	if quarantine := l.life.quarantine; quarantine != nil {
		lc.QuarantineFile, lc.LSN = quarantine.name, max(lc.LSN, quarantine.lsn)
	}
	if l.dir.opt.broken.has(earlyLSN) {
		lc.LSN = max(lc.LSN, l.dir.journal.Notified())
	}
	return lc, l.oldestLocked()
}
