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

// Writing the checkpoint is how everything but batches is committed: the birth, the
// deletion, the truncation and the start of logs, what a compaction put in the place of
// segments, and the fate of a log that was found damaged. A change of a few logs appends
// them to the checkpoint (commit); what moves the redo pointer writes all logs (checkpoint).
//
// There are two copies, in directories of their own. They are written together, and what
// a checkpoint commits is done only when both are durable. A start reads the first one
// only; if it is lost, a repair puts the other in its place.
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

// closeCheckpoint gives the checkpoint's files back. It is whole without that.
func (d *Dir) closeCheckpoint() error {
	if d.store == nil {
		return nil
	}
	return d.store.Close()
}

// hasCheckpoint reports whether the directory has a checkpoint, whatever its state.
func (d *Dir) hasCheckpoint() bool {
	has, err := statelog.Exists(d.opt.FS, path.Join(d.path, CheckpointDir))
	return has || err != nil
}

// checkpoint makes the recovery points of all logs durable, with the redo
// pointer that they allow, and gives up the journal files before it. A caller
// that has just begun a fresh file names it.
//
// After an error the old or the new version may be on the disk: the caller must
// do nothing that is wrong under either.
func (d *Dir) checkpoint(fresh *journal.Position) error {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return d.checkpointAll(fresh, false)
}

// checkpointAll is checkpoint for a caller that holds ckptMu. clean marks the stop that it ends,
// unless the journal before the fresh file is needed.
func (d *Dir) checkpointAll(fresh *journal.Position, clean bool) error {
	unsure := d.unsure.Swap(false) // before the logs are collected: they are without those
	// First what has been notified, then the logs: a frame whose owner is notified later
	// has a larger LSN.
	h, redo := d.nextHeader(), d.journal.Notified()+1
	logs, deleted := d.logsAndDeleted()
	points := make([]int64, len(logs))
	err := d.store.WriteEach(func(yield func(*checkpoint.Log) bool) {
		for i, l := range logs {
			lc, oldest := l.checkpointed()
			redo, points[i] = min(redo, oldest), lc.Offset
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
	d.last = h
	for i, l := range logs {
		l.committed = points[i]
	}
	d.journal.Release(h.Redo)
	return nil
}

// nextHeader is the header of the checkpoint that follows, with the redo pointer of the
// last one.
func (d *Dir) nextHeader() checkpoint.Header {
	durable := min(d.journal.Notified(), d.journal.Durable())
	return checkpoint.Header{Seq: d.last.Seq + 1, Redo: d.last.Redo, Durable: durable, Dir: d.ident.Dir, Journal: d.ident.Journal}
}

// writeCheckpoint writes a whole checkpoint of a directory that has no users.
func (d *Dir) writeCheckpoint(c *checkpoint.State) error {
	if err := d.store.WriteAll(c); err != nil {
		return err
	}
	d.last = c.Header
	return nil
}

// commit makes the states of some logs durable, deleted ones included. It costs what they
// do. The redo pointer stays. Errors mean what they do for checkpoint.
func (d *Dir) commit(logs ...*Log) error {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	if d.unsure.Load() || d.store.NeedsAll() {
		return d.checkpointAll(nil, false)
	}
	c := checkpoint.Change{Header: d.nextHeader()}
	if !d.is(loglife.Journal) { // a fresh journal file may have begun, to which no frame leads from the old redo pointer
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
	d.last = c.Header
	for i, l := range named {
		l.committed = c.Logs[i].Offset
	}
	return nil
}

// isCut reports whether a truncation or reset is not finished. The producers that a checkpoint has
// are those below its recovery point, and the same as long as that stays; but a reset forgets
// them, and may go on where the recovery point is.
func (l *Log) isCut() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.cut != nil
}

// commitRule is commit, unless a test takes the rule away that something is committed first.
func (d *Dir) commitRule(r rule, logs ...*Log) error {
	if d.opt.broken.has(r) {
		return nil
	}
	return d.commit(logs...)
}

// entryOf returns what a checkpoint says of a log, nil if it says nothing: also if another
// log was made under its id since.
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
		return &t.entry
	default:
		return nil
	}
}

// checkpointed returns what a checkpoint says of the log, and the LSN of the
// oldest frame that it still needs.
func (l *Log) checkpointed() (checkpoint.Log, journal.LSN) {
	l.smu.Lock()
	defer l.smu.Unlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.life.found != nil {
		return *l.life.found, math.MaxUint64
	}
	lc := checkpoint.Log{ID: l.id, Topic: l.topic, Start: l.logStart.Load(), Point: l.rp}
	lc.Clean = l.firstDirty
	if x := l.life.swap; x != nil && !x.placed && !l.dir.opt.broken.has(forgetfulSwap) {
		lc.Swapping, lc.Swap = true, x.old[0].Base() // a start finishes it
	}
	lc.Epochs = l.epochs.Below(l.rp.Offset + 1) // those that began above it come back with the frames
	lc.Producers = l.producers.Append(nil, l.rp.Offset)
	if aside := l.life.aside; aside != nil {
		lc.Aside, lc.LSN = aside.name, max(lc.LSN, aside.lsn)
	}
	if l.dir.opt.broken.has(earlyLSN) {
		lc.LSN = max(lc.LSN, l.dir.journal.Notified())
	}
	return lc, l.oldestLocked()
}
