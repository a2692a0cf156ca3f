package storage

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/segment"
)

// keeperDelay is when the first look at the logs comes after a start, at most: not
// beside everything else that a start does.
const keeperDelay = 30 * time.Second

// retentionLoop is what a directory does about what its logs need not keep.
type retentionLoop struct {
	asked  chan struct{} // for a look at all logs
	buried chan struct{} // a segment was retired

	urgent atomic.Bool // no file waits

	mu      sync.Mutex
	graves  []pendingDelete // bounded by what goes from logs in the longest file.delete.delay.ms
	waiting int64           // bytes in them
}

// pendingDelete is a segment that left its log and whose file is still there.
type pendingDelete struct {
	due   time.Time
	seg   *segment.Segment
	bytes int64
}

func (k *retentionLoop) init() {
	k.asked, k.buried = make(chan struct{}, 1), make(chan struct{}, 1)
}

// wakeRetention has the keeper look at all logs at once: what they keep may have changed.
func (d *Dir) wakeRetention() { signal(d.keeper.asked) }

// Reclaim has retention look at all logs of the directory at once, because the
// disk is full; the files of what went before don't wait any longer either. It
// doesn't wait for that.
func (d *Dir) Reclaim() {
	d.keeper.urgent.Store(true)
	d.wakeRetention()
}

// runRetention is the keeper: it asks the logs in turn what may go from them, and
// removes the files of what went. Close ends it, and doesn't wait for the files: the
// next start removes them.
func (d *Dir) runRetention() {
	look := time.NewTimer(min(d.opt.KeeperInterval, keeperDelay))
	defer look.Stop()
	bury := time.NewTimer(time.Hour)
	defer bury.Stop()
	for {
		urgent, all := false, true
		select {
		case <-d.quit:
			return
		case <-look.C:
			all = d.retain()
			look.Reset(d.opt.KeeperInterval)
		case <-d.keeper.asked:
			urgent = d.keeper.urgent.Swap(false)
			all = d.retain()
		case <-d.keeper.buried:
		case <-bury.C:
		}
		if !all {
			look.Reset(min(d.opt.KeeperInterval, keeperDelay))
		}
		bury.Reset(d.removeDue(urgent))
	}
}

// compactLogs is the goroutine that compacts logs, one after the other. It is not
// the keeper's: a pass may take hours, and a full disk must not wait for it.
func (d *Dir) compactLogs() {
	again := time.NewTimer(d.cleaning.Load().Backoff)
	defer again.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-d.recleaned:
		case <-again.C:
		}
		for d.compactNext() {
			if d.stopping() {
				return
			}
		}
		again.Reset(d.cleaning.Load().Backoff)
	}
}

// Cleaning configures compaction. Zero values select the defaults.
type Cleaning struct {
	// Backoff is the pause after no log was due for compaction (log.cleaner.backoff.ms).
	// Default 15 seconds.
	Backoff time.Duration
	// KeyBytes bounds the memory of key maps (log.cleaner.dedupe.buffer.size). A pass
	// allocates as much of it as its keys need. Default 128 MiB.
	KeyBytes int64
	// BytesPerSecond bounds what passes read and write (log.cleaner.io.max.bytes.per.second).
	// 0: no limit.
	BytesPerSecond int64
}

// share returns the configuration for each of several directories. Each runs at most one
// pass at a time.
func (c Cleaning) share(dirs int) Cleaning {
	c.Backoff = cmp.Or(max(c.Backoff, 0), 15*time.Second)
	c.KeyBytes = max(cmp.Or(max(c.KeyBytes, 0), 128<<20)/int64(dirs), 1)
	if c.BytesPerSecond > 0 {
		c.BytesPerSecond = max(c.BytesPerSecond/int64(dirs), 1)
	}
	return c
}

// SetCleaning changes the configuration of compaction for all directories together. KeyBytes
// applies from the next pass on, the others at once.
func (m *Manager) SetCleaning(c Cleaning) {
	own := c.share(len(m.dirs) + len(m.failed))
	for _, d := range m.dirs {
		if own != *d.cleaning.Load() {
			d.setCleaning(own)
			signal(d.recleaned)
		}
	}
}

func (d *Dir) setCleaning(c Cleaning) {
	d.cleaning.Store(&c)
	d.pace.limit(float64(c.BytesPerSecond))
}

// retire takes the files of a segment away that left its log. flushMu of the log is
// held, so that nobody makes a segment of the same name meanwhile.
func (d *Dir) retire(l *Log, s *segment.Segment) {
	if err := s.Retire(); err != nil {
		d.logOnce(l, "files of a removed segment could not be renamed, the next start removes them", err)
		return
	}
	delay := l.cfg.Load().Cleanup.DeleteDelay
	if d.CanCreate() != nil {
		delay = 0 // space is low
	}
	k := &d.keeper
	k.mu.Lock()
	k.graves = append(k.graves, pendingDelete{time.Now().Add(delay), s, s.Size()})
	k.waiting += s.Size()
	d.stats.retiredBytes.Set(float64(k.waiting))
	k.mu.Unlock()
	signal(k.buried)
}

// removeDue removes the files that have waited long enough, or all, and returns when the
// next ones will have.
func (d *Dir) removeDue(all bool) time.Duration {
	k, now := &d.keeper, time.Now()
	k.mu.Lock()
	var due, left []pendingDelete
	next := time.Hour
	for _, g := range k.graves {
		if wait := g.due.Sub(now); wait > 0 && !all {
			left, next = append(left, g), min(next, wait)
			continue
		}
		due = append(due, g)
		k.waiting -= g.bytes
	}
	k.graves = left
	k.mu.Unlock()
	for _, g := range due {
		if d.stopping() {
			return next
		}
		if err := g.seg.RemoveRetired(); err != nil {
			d.logOnce(nil, "files of a removed segment could not be removed, the next start tries again", err)
		}
	}
	k.mu.Lock()
	d.stats.retiredBytes.Set(float64(k.waiting))
	k.mu.Unlock()
	return next
}

// reportRemoved says that a part of a log went, and why.
func (d *Dir) reportRemoved(m *StartMove, base, end, bytes int64, file bool) {
	reason, why := removalReason(m, base)
	d.stats.removedBytes.WithLabelValues(d.path, reason).Add(float64(bytes))
	what := "records that were in the journal only went from a log"
	if file {
		d.stats.removed.WithLabelValues(d.path, reason).Inc()
		what = "a segment went from a log"
	}
	d.log.Info(what, zap.String("topic", m.Log.topic), zap.Int32("partition", m.Log.id.Partition), zap.Int64("from", base), zap.Int64("to", end),
		zap.Int64("bytes", bytes), zap.String("reason", reason), zap.String("why", why))
}
