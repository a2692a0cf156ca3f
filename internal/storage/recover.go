package storage

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// recovery is one start of a directory. Nothing is changed that a power loss
// in the middle could turn against the state before it: the checkpoint that is
// built upon is made durable first, and what is to be removed is removed after
// the checkpoint that no longer names it.
type recovery struct {
	d      *Dir
	ckpt   *checkpoint.State
	found  map[ID]*found // logs of the checkpoint
	after  []task
	others bool // the journal holds frames of logs that the checkpoint doesn't know
	above  journal.LSN
	extent journal.Extent
	began  time.Time
	said   time.Time // when progress was logged
	told   time.Time // when Options.Progress was called
	frames int       // read so far
}

// progressEvery is how often a start that takes long says how far it is.
const progressEvery = 5 * time.Second

// tellEvery is how often Options.Progress hears at most.
const tellEvery = 200 * time.Millisecond

// progress says how far a start is, every few seconds.
func (r *recovery) progress(doing string, done, all int) {
	now := time.Now()
	if tell := r.d.opt.Progress; tell != nil && now.Sub(r.told) >= tellEvery {
		r.told = now
		tell(r.d.path, doing, done, all)
	}
	if now.Sub(r.said) >= progressEvery {
		r.said = now
		r.d.log.Info("recovering: "+doing, zap.Int("done", done), zap.Int("of", all), zap.Duration("for", now.Sub(r.began)))
	}
}

// found is what a start learns of one log.
type found struct {
	Follower
	l     *Log
	files map[int64]int64 // segments on the disk: base → size
	err   error
	aside string // file with its frames, where they were kept aside just now
}

// recover brings the directory from what a stop or a crash left to where it
// takes records.
func (d *Dir) recover() error {
	r := &recovery{d: d, found: map[ID]*found{}, above: 1, began: time.Now(), said: time.Now()}
	if err := r.readCheckpoint(); err != nil {
		return err
	}
	if r.ckpt == nil {
		if err := r.firstStart(); err != nil {
			return err
		}
	} else if err := r.logs(); err != nil {
		return err
	}
	d.minLSN = r.above
	d.on(loglife.Recovered, nil)
	if err := d.begin(); err != nil {
		return err
	}
	r.runDeferred()
	if r.frames > manyFrames {
		d.memory.evictCached(d.Logs())
		runtime.GC() // empties the pools, together with the next one
		debug.FreeOSMemory()
	}
	if r.ckpt != nil && !d.clean {
		d.log.Info("recovered", zap.Int("partitions", len(d.list)), zap.Duration("took", time.Since(r.began)))
	}
	d.stats.recovery.Set(time.Since(r.began).Seconds())
	d.stats.online.Set(1)
	return nil
}

// manyFrames is how many frames of a journal leave enough behind for the memory to
// be given back to the system at once. What was replayed stands in many small
// chunks, in segments too, and in the system's cache.
const manyFrames = 50_000

func (r *recovery) readCheckpoint() error {
	d := r.d
	c, err := d.openCheckpoint()
	if err == nil {
		err = d.interrupted() // before anything is written: a start that has nothing to recover leaves it so
	}
	if c == nil || err != nil {
		return err
	}
	r.ckpt, d.last = c, c.Header
	if c.Dir != d.ident.Dir || c.Journal != d.ident.Journal {
		return foreign("%s was written for log directory %x and journal %x, not for %x and %x; put back the files that belong together; if a repair was interrupted, chronikctl log repair finishes it with what can be read of the old journal",
			path.Join(d.path, CheckpointDir), c.Dir, c.Journal, d.ident.Dir, d.ident.Journal)
	}
	if r.above = c.Above(); d.opt.broken.has(forgetfulLSN) {
		r.above = max(c.Durable+1, c.Redo.LSN)
	}
	d.clean, _ = StoppedCleanly(d.opt.FS, d.place(), c) // reading the journal reports what is wrong
	// What was read may be in the page cache only, and reading it proves nothing about the
	// disk. It is written again before anything is done that it alone justifies. From then on
	// it is no longer that of a clean stop.
	c.Clean = false
	return d.writeCheckpoint(c)
}

// firstStart makes sure that there is nothing to lose.
func (r *recovery) firstStart() error {
	d := r.d
	d.clean = true
	if err := d.refuseForeignFiles(); err != nil {
		return err
	}
	if empty, err := d.journal.Empty(); err != nil || !empty {
		return errors.Join(err, foreign("journal %s holds records, but %s has no checkpoint; put the checkpoint back, as chronikctl log repair does, or use an empty directory and journal", d.jpath, d.path))
	}
	return nil
}

// task is what may be done only after the new checkpoint is durable.
type task struct {
	l   *Log // nil: no log depends on it
	run func() error
}

func (r *recovery) later(l *Log, run func() error) { r.after = append(r.after, task{l, run}) }

// runDeferred does what waited for the checkpoint. What can't be done stops nobody else:
// the next start tries again.
func (r *recovery) runDeferred() {
	for _, t := range r.after {
		err := t.run()
		switch {
		case err == nil:
		case t.l != nil:
			t.l.goOffline(loglife.Unreadable, nil, err)
		default:
			r.d.logOnce(nil, "what is not needed any more could not be removed", err)
		}
	}
}

// logs recovers the logs of a checkpoint.
func (r *recovery) logs() error {
	for i := range r.ckpt.Logs {
		r.openLog(&r.ckpt.Logs[i])
	}
	if !r.d.clean {
		if err := r.verify(); err != nil {
			return err
		}
	}
	for _, f := range r.found {
		if f.err == nil {
			f.err = r.prepare(f)
		}
		if err := r.d.interrupted(); err != nil {
			return err
		}
		if f.err == nil && f.lc.Aside != "" {
			f.err = f.readQuarantine(f.lc.Aside, f.l.replay, func() error { return nil })
			r.later(nil, func() error { return r.removeQuarantine(f) })
		}
	}
	if !r.d.clean {
		if err := r.apply(); err != nil {
			return err
		}
		for _, name := range r.extent.Files {
			if err := r.d.interrupted(); err != nil {
				return err
			}
			if err := r.d.journal.SyncFile(name); err != nil {
				return err
			}
		}
	}
	if err := r.flushReplayed(); err != nil {
		return err
	}
	for _, f := range r.found {
		r.finish(f)
	}
	r.d.mu.Lock()
	r.d.relistLocked()
	r.d.mu.Unlock()
	return r.strays()
}

// flushReplayed brings what was replayed into synced segments. What the journal holds of
// logs that failed on the way here is kept aside: the journal is given up.
func (r *recovery) flushReplayed() error {
	all := slices.Collect(maps.Values(r.found))
	var mu sync.Mutex
	done := 0
	each(len(all), func(i int) {
		f := all[i]
		if r.d.interrupted() != nil {
			return
		}
		if f.err == nil {
			f.err = f.l.flushReplayed()
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		r.progress("partitions written and synced", done, len(all))
	})
	if err := r.d.interrupted(); err != nil {
		return err
	}
	keep := r.others
	for _, f := range all {
		if f.err != nil && shortage(f.err) {
			return f.err // no log is to blame, and a later start finds nothing wrong
		}
		keep = keep || f.err != nil && f.lc.Offline == ""
	}
	if r.d.clean || !keep {
		return nil
	}
	aside := newQuarantine(r.d)
	_, err := r.d.journal.Scan(r.ckpt.Redo, func(fr journal.Frame) error {
		if err := r.d.interrupted(); err != nil {
			return err
		}
		return r.quarantine(aside, &fr)
	})
	return errors.Join(err, aside.close())
}

// flushReplayed flushes and syncs without saving indexes, which are caches that a start
// doesn't wait for: the next sync or the stop saves them.
func (l *Log) flushReplayed() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.flushLocked(); err != nil {
		return err
	}
	return l.syncBy((*segment.Segment).SyncBatches)
}

// quarantine keeps a frame that no log has taken.
func (r *recovery) quarantine(aside *quarantine, fr *journal.Frame) (err error) {
	if t, ok := r.d.deleted[fr.Stream]; ok && fr.LSN <= t.lsn {
		return nil
	}
	f := r.found[fr.Stream]
	switch {
	case f == nil:
		_, err = aside.append(fr, r.d.path, fmt.Sprintf(unknownFrames+"%x-%d", fr.Stream.Topic, fr.Stream.Partition))
	case f.err == nil || f.lc.Offline != "" || fr.LSN <= f.lc.LSN:
	case passes(f.err): // not in a place that may be what is wrong
		f.aside, err = aside.append(fr, r.d.path, f.l.String())
	default:
		_, err = aside.append(fr, f.l.path, "recovery")
	}
	return err
}

// removeQuarantine removes what a log that came back has taken.
func (r *recovery) removeQuarantine(f *found) error {
	if f.err != nil {
		return nil
	}
	return r.d.opt.FS.Remove(path.Join(r.d.path, f.lc.Aside))
}

// openLog opens one log of the checkpoint.
func (r *recovery) openLog(lc *checkpoint.Log) {
	d := r.d
	dirName := fmt.Sprintf("%s-%d", lc.Topic, lc.ID.Partition)
	if lc.Deleted {
		d.deleted[lc.ID] = tombstone{entry: *lc, lsn: lc.LSN}
		r.later(nil, func() error { return d.removeDeleted([]deletion{{id: lc.ID, name: dirName}}) })
		return
	}
	cfg := Config{}
	if d.opt.Config != nil {
		cfg = d.opt.Config(lc.Topic, lc.ID)
	}
	l := newLog(d, lc.ID, lc.Topic, dirName, cfg)
	f := &found{l: l, Follower: *Follow(lc), files: map[int64]int64{}}
	r.found[lc.ID] = f
	d.logs[lc.ID] = l
	l.rp = checkpoint.Point{Offset: lc.Offset, LSN: lc.LSN}
	l.firstDirty = lc.Clean
	l.moveStart(lc.Start)
	l.setEnds(lc.Offset)
	l.epochs = lc.Epochs
	if _, err := l.producers.Decode(lc.Producers); err != nil {
		f.err = fmt.Errorf("producer state in the checkpoint: %w", err)
	}
	if lc.Offline != "" {
		f.err = errors.New(lc.Offline)
	}
}

// setEnds moves all ends of a log that nobody uses yet.
func (l *Log) setEnds(end int64) {
	l.flushed = end
	l.markProducersDurable(end)
	l.moveEnd(end)
}

// finish takes a log that failed offline. Nothing of it is changed, and the
// checkpoints go on saying what was found. One that is damaged stays so; one that
// met an error of the system is tried again at the next start.
func (r *recovery) finish(f *found) {
	l := f.l
	if f.err == nil {
		l.on(loglife.Opened, nil)
	} else {
		as, event := *f.lc, loglife.Unreadable
		switch {
		case !passes(f.err):
			event, as.Offline = loglife.Found, f.err.Error()
			// Its frames were put aside: none of the journal's counts for it any more.
			as.LSN = math.MaxInt64
		case f.aside != "" && !r.d.opt.broken.has(forgetQuarantine):
			as.Aside = f.aside
		}
		l.segments = nil
		l.setEnds(f.lc.Offset)
		l.goOffline(event, &as, f.err)
	}
	if l.logStart.Load() > l.logEnd.Load() {
		l.moveStart(l.logEnd.Load())
	}
}
