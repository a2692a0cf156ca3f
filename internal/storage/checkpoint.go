package storage

import (
	"math"
	"path"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// Everything except batches is committed with a checkpoint: the creation, deletion and truncation
// of logs, changes of the log start, segment swaps of a compaction, and the state of a damaged log.
// A change of a few logs is appended to the checkpoint (commit). To advance the redo pointer, those
// logs are appended whose entries differ from the durable ones (commitMoved). A whole checkpoint is
// written at a start and after an error, and next to the changes when these have grown
// (renewCheckpoint).
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
		CompactBytes: d.opt.compactBytes,
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
	if fresh == nil {
		return d.commitMoved()
	}
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return d.checkpointAll(fresh, false)
}

// checkpointAll writes a whole checkpoint. clean marks a clean stop, unless a journal file before
// the fresh one is still needed. The caller holds ckptMu.
func (d *Dir) checkpointAll(fresh *journal.Position, clean bool) error {
	unsure := d.unsure.Swap(false) // before the logs are collected, which no longer include failed creations
	// The notified LSN must be read before the logs: a frame whose owner is notified later has a
	// larger LSN.
	h, next := d.nextHeader(), d.journal.Notified()+1
	redo := next
	logs, deleted := d.logsAndDeleted()
	entries := make([]committed, len(logs))
	var tombs []checkpoint.Log
	var buf []byte
	err := d.store.WriteEach(func(yield func(*checkpoint.Log) bool) {
		for i, l := range logs {
			lc, oldest := l.checkpointed(true)
			entries[i], buf = committedOf(&lc, min(oldest, next), buf)
			redo = min(redo, oldest)
			if !yield(&lc) {
				return
			}
		}
		tombs = d.tombstones(deleted, redo)
		for i := range tombs {
			if !yield(&tombs[i]) {
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
		return d.uncommitted(err)
	}
	d.setLast(h)
	for i, l := range logs {
		l.setCommitted(entries[i])
	}
	d.tombstonesStored(tombs)
	d.journal.Release(h.Redo)
	return nil
}

const notCommitted = "checkpoint could not be written"

// uncommitted logs that a commit failed, and returns the error. Those who try again need not, and
// some of them are far from the disk: the follower whose leader moved a log start.
func (d *Dir) uncommitted(err error) error {
	if !d.stopping() { // Close returns its own
		d.logOnce(nil, notCommitted, err)
	}
	return err
}

// nextHeader returns the header of the next checkpoint, with the redo pointer of the last one.
func (d *Dir) nextHeader() checkpoint.Header {
	durable := min(d.journal.Notified(), d.journal.Durable())
	return checkpoint.Header{Seq: d.last.Seq + 1, Redo: d.last.Redo, Durable: durable, Dir: d.ident.Dir, Journal: d.ident.Journal,
		Boot: d.storedBoot(), Finding: d.pending, Owner: *d.owner.Load()}
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
	if d.needsWhole() {
		return d.checkpointAll(nil, false)
	}
	c, next := d.newChange(), d.journal.Notified()+1
	for _, l := range logs {
		if e, deleted := d.entryOf(l, next); e != nil && deleted {
			c.addTombstone(e.lc)
		} else if e != nil {
			c.add(e)
		}
	}
	return d.append(c)
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

// checkpointed returns the checkpoint entry of the log, with its producers or without, and the LSN
// of the oldest frame that the log still needs.
func (l *Log) checkpointed(withProducers bool) (checkpoint.Log, journal.LSN) {
	high := recoveredHigh{}
	high.offset, high.epoch = l.observer().High() // which must be called without locks
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.life.found != nil {
		lc := *l.life.found
		lc.Lossy, lc.Partial = l.acks.lossy.Load(), l.partial.Load()
		return lc, math.MaxUint64
	}
	lc := checkpoint.Log{ID: l.id, Topic: l.topic, Start: l.logStart.Load(), Point: l.rp}
	lc.Clean, lc.Relied = l.firstDirty, l.relied
	lc.Flaws = l.flawsLocked()
	l.storeHighLocked(&lc, high)
	lc.Led = l.led.stored.Load()
	l.markLocked(&lc)
	if x := l.life.swap; x != nil && !x.placed && !l.dir.opt.broken.has(skipSwapEntry) {
		lc.Swapping, lc.Swap = true, x.old[0].Base() // a start completes it
	}
	lc.Epochs = l.epochs.Below(l.rp.Offset + 1) // later epochs come back with the frames
	until := l.rp.Offset
	if l.dir.opt.broken.has(aheadTransactions) {
		until = l.flushed
	}
	if withProducers {
		lc.Producers = l.producers.Append(nil, until)
	}
	if quarantine := l.life.quarantine; quarantine != nil {
		lc.QuarantineFile, lc.LSN = quarantine.name, max(lc.LSN, quarantine.lsn)
	}
	if l.dir.opt.broken.has(earlyLSN) {
		lc.LSN = max(lc.LSN, l.dir.journal.Notified())
	}
	return lc, l.oldestLocked()
}
