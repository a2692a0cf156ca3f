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

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// recovery is one start of a directory. A power loss at any point must leave a state that the next
// start can recover. Therefore the start writes the checkpoint that it builds on again before it
// changes anything, and removes files only after a new checkpoint no longer names them.
type recovery struct {
	d        *Dir
	ckpt     *checkpoint.State
	found    map[ID]*found // logs that the checkpoint lists
	after    []task
	others   bool // the journal holds frames of logs that the checkpoint does not list
	above    journal.LSN
	extent   journal.Extent
	began    time.Time
	logged   time.Time // when progress was last logged
	reported time.Time // when Options.Progress was last called
	frames   int       // frames read so far
}

// progressEvery is the interval at which a long recovery logs its progress.
const progressEvery = 5 * time.Second

// reportEvery is the shortest interval between two calls of Options.Progress.
const reportEvery = 200 * time.Millisecond

// progress logs and reports how far the recovery is, at most at the intervals above.
func (r *recovery) progress(doing string, done, all int) {
	now := time.Now()
	if tell := r.d.opt.Progress; tell != nil && now.Sub(r.reported) >= reportEvery {
		r.reported = now
		tell(r.d.path, doing, done, all)
	}
	if now.Sub(r.logged) >= progressEvery {
		r.logged = now
		r.d.log.Info("recovering: "+doing, zap.Int("done", done), zap.Int("of", all), zap.Duration("for", now.Sub(r.began)))
	}
}

// found is what recovery knows about one log.
type found struct {
	Follower
	l              *Log
	files          map[int64]int64 // existing segments: base → size
	aborted        map[int64]int64 // their indexes of aborted transactions
	err            error
	quarantineFile string // file into which this start quarantined its frames
}

// recover brings the directory from the state after a stop or a crash to one that accepts records.
func (d *Dir) recover() error {
	r := &recovery{d: d, found: map[ID]*found{}, above: 1, began: time.Now(), logged: time.Now()}
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
	d.applyEvent(loglife.Recovered, nil)
	if err := d.begin(); err != nil {
		return err
	}
	r.runDeferred()
	if r.frames > manyFrames {
		d.memory.evictCached(d.Logs())
		runtime.GC() // pools are emptied by two collections; FreeOSMemory runs the second
		debug.FreeOSMemory()
	}
	if r.ckpt != nil && !d.clean {
		d.log.Info("recovered", zap.Int("partitions", len(d.Logs())), zap.Duration("took", time.Since(r.began)))
	}
	d.stats.recovery.Set(time.Since(r.began).Seconds())
	return nil
}

// manyFrames is the number of replayed frames above which recovery returns memory to the system at
// once. A replay leaves many small chunks behind, which segments and the page cache hold too.
const manyFrames = 50_000

func (r *recovery) readCheckpoint() error {
	d := r.d
	c, err := d.openCheckpoint()
	if err == nil {
		err = d.interrupted() // before the first write: an interrupted start then leaves everything as it was
	}
	if c == nil || err != nil {
		return err
	}
	r.ckpt = c
	d.setLast(c.Header)
	if c.Dir != d.ident.Dir || c.Journal != d.ident.Journal {
		return foreign("%s was written for log directory %x and journal %x, not for %x and %x; "+
			"restore files that belong together; if a repair was interrupted, %s",
			path.Join(d.path, CheckpointDir), c.Dir, c.Journal, d.ident.Dir, d.ident.Journal,
			d.remedy("completes it with the frames of the old journal that can be read"))
	}
	if r.above = c.Above(); d.opt.broken.has(skipCheckpointLSN) {
		r.above = max(c.Durable+1, c.Redo.LSN)
	}
	d.clean, _ = StoppedCleanly(d.opt.FS, d.Location(), c) // reading the journal later reports the error
	// The checkpoint may have been read from the page cache, which proves nothing about the disk.
	// It is written again before any action that depends on it. From then on the stop no longer
	// counts as clean.
	c.Clean = false
	d.judgeLoss(c)
	return d.writeCheckpoint(c)
}

// firstStart makes sure that the directory has nothing to lose.
func (r *recovery) firstStart() error {
	d := r.d
	d.clean = true
	if err := d.refuseForeignFiles(); err != nil {
		return err
	}
	if empty, err := d.journal.Empty(); err != nil || !empty {
		return errors.Join(err, foreign("journal %s holds records, but %s has no checkpoint; if the checkpoint is lost, %s; "+
			"otherwise use an empty directory and journal", d.jpath, d.path, d.remedy("restores it")))
	}
	return nil
}

// task is an action that must wait until the new checkpoint is durable.
type task struct {
	l   *Log // nil: no log depends on it
	run func() error
}

func (r *recovery) later(l *Log, run func() error) { r.after = append(r.after, task{l, run}) }

// runDeferred runs the actions that waited for the checkpoint. A failed one does not stop the
// others; the next start retries it.
func (r *recovery) runDeferred() {
	for _, t := range r.after {
		err := t.run()
		switch {
		case err == nil:
		case t.l != nil:
			t.l.goOffline(loglife.Unreadable, nil, err)
		default:
			r.d.logOnce(nil, "obsolete files could not be removed, the next start tries again", err)
		}
	}
}

// logs recovers the logs that the checkpoint lists.
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
		if f.err == nil && f.lc.QuarantineFile != "" {
			f.err = f.replayQuarantined(f.l.flush)
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
	r.loadHigh()
	r.d.mu.Lock()
	r.d.relistLocked()
	r.d.mu.Unlock()
	return r.quarantineStrays()
}

// flushReplayed writes the replayed batches to segments and syncs them. It quarantines the
// journal's frames of logs that have failed, because the journal's files will be released.
func (r *recovery) flushReplayed() error {
	all := slices.Collect(maps.Values(r.found))
	var mu sync.Mutex
	done := 0
	each(len(all), func(i int) {
		if r.d.interrupted() != nil {
			return
		}
		if f := all[i]; f.err == nil {
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
			return f.err // an error of the whole machine; a later start may succeed
		}
		keep = keep || f.err != nil && f.lc.Offline == ""
	}
	if r.d.clean || !keep {
		return nil
	}
	q := newQuarantine(r.d)
	_, err := r.d.journal.Scan(r.ckpt.Redo, func(fr journal.Frame) error {
		if err := r.d.interrupted(); err != nil {
			return err
		}
		return r.quarantine(q, &fr)
	})
	return errors.Join(err, q.Close())
}

// flushReplayed flushes and syncs the log without saving indexes. They are caches, so recovery does
// not wait for them; the next sync or the stop saves them.
func (l *Log) flushReplayed() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.flushLocked(); err != nil {
		return err
	}
	return l.syncBy((*segment.Segment).SyncBatches)
}

// quarantine stores a frame that no log has taken.
func (r *recovery) quarantine(q *Quarantine, fr *journal.Frame) (err error) {
	if t, ok := r.d.deleted[fr.Stream]; ok && fr.LSN <= t.LSN {
		return nil
	}
	f := r.found[fr.Stream]
	switch {
	case f == nil:
		_, err = q.addIn(r.d.path, fr, unknownPrefix+stem(fr.Stream))
	case f.err == nil || f.lc.Offline != "" || fr.LSN <= f.lc.LSN:
	case isSystemError(f.err): // not in the partition's directory, which may be at fault
		f.quarantineFile, err = q.Add(fr)
	default:
		_, err = q.addIn(f.l.path, fr, damagedFrames)
	}
	return err
}

// removeQuarantine removes the quarantine file that a recovered log has replayed.
func (r *recovery) removeQuarantine(f *found) error {
	if f.err != nil {
		return nil
	}
	return r.d.opt.FS.Remove(path.Join(r.d.path, f.lc.QuarantineFile))
}

// openLog opens one log of the checkpoint.
func (r *recovery) openLog(lc *checkpoint.Log) {
	d := r.d
	if lc.Deleted {
		d.deleted[lc.ID] = tombstone{Log: *lc}
		r.later(nil, func() error { return d.removeDeleted([]checkpoint.Log{*lc}) })
		return
	}
	f := r.openEntry(lc, d.configOf(lc))
	r.found[lc.ID] = f
	d.logs[lc.ID] = f.l
}

func (d *Dir) configOf(lc *checkpoint.Log) Config {
	if d.opt.Config == nil {
		return Config{}
	}
	return d.opt.Config(lc.Topic, lc.ID)
}

// openEntry returns the log of a checkpoint entry, without its segments.
func (r *recovery) openEntry(lc *checkpoint.Log, cfg Config) *found {
	d := r.d
	l := newLog(d, lc.ID, lc.Topic, cfg)
	f := foundAs(l, lc)
	l.acks.lossy.Store(lc.Lossy)
	if l.partial.Store(lc.Partial); lc.Partial {
		d.suspects.Name(l)
	}
	if f.err = l.restore(lc); lc.Offline != "" {
		f.err = errors.New(lc.Offline)
	}
	return f
}

// foundAs returns what recovery knows of a log before it reads any of its files.
func foundAs(l *Log, lc *checkpoint.Log) *found {
	return &found{l: l, Follower: *Follow(lc), files: map[int64]int64{}, aborted: map[int64]int64{}}
}

// restore gives a log that is not in use the state of its checkpoint entry, without segments. The
// caller is its only user, or holds flushMu.
func (l *Log) restore(lc *checkpoint.Log) error {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	l.mu.Lock()
	l.stored = stored{rp: checkpoint.Point{Offset: lc.Offset, LSN: lc.LSN}}
	l.firstDirty, l.relied = lc.Clean, lc.Relied
	l.storedHigh = recoveredHigh{lc.High, lc.HighEpoch}
	l.setLed(lc.Led)
	l.setEnds(lc.Offset)
	l.mu.Unlock()
	l.moveStart(lc.Start)
	l.epochs = lc.Epochs
	l.unstable.aborted.Store(-1)
	_, err := l.producers.Decode(lc.Producers)
	if err != nil {
		err = fmt.Errorf("producer state in the checkpoint: %w", err)
	}
	l.noteUnstableLocked()
	return err
}

// setEnds sets all ends of a log that is not in use yet.
func (l *Log) setEnds(end int64) {
	l.flushed = end
	l.markProducersDurable(end)
	l.moveEnd(end)
}

// finish puts a log online, or takes it offline if its recovery failed. Of a failed log, the bytes
// that the checkpoint lists stay, and checkpoints repeat what they said of it. A damaged log stays
// offline; after an error of the system it is tried again (reopen).
func (r *recovery) finish(f *found) {
	l := f.l
	if f.err == nil {
		l.applyEvent(loglife.Opened, nil)
	} else {
		as, event := *f.lc, loglife.Unreadable
		switch {
		case !isSystemError(f.err):
			event, as.Offline = loglife.FoundDamaged, f.err.Error()
			// Its frames were quarantined: none of the journal's counts for it any longer.
			as.LSN = math.MaxInt64
		case f.quarantineFile != "" && !r.d.opt.broken.has(skipQuarantineEntry):
			as.QuarantineFile = f.quarantineFile
		}
		l.forgetFiles(f.lc)
		l.goOffline(event, &as, f.err)
	}
	l.bound()
}

// forgetFiles reverts what recovery read of a log's files.
func (l *Log) forgetFiles(lc *checkpoint.Log) {
	l.mu.Lock()
	gone := l.segments
	l.segments = nil
	l.setEnds(lc.Offset)
	l.mu.Unlock()
	for _, s := range gone {
		s.Forget()
	}
}

// bound keeps the log start and the stored high watermark within what recovery found of the log.
func (l *Log) bound() {
	if l.logStart.Load() > l.logEnd.Load() {
		l.moveStart(l.logEnd.Load())
	}
	l.mu.Lock()
	if l.storedHigh.offset >= 0 { // a power loss may have removed records below it
		l.storedHigh.offset = l.withinLocked(l.storedHigh.offset)
	}
	l.mu.Unlock()
}
