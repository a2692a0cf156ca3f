package storage

import (
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

// Cleaning is what holds for compactions and may change while they go on; 0 for what is
// to stay as Options or the last SetCleaning have it, but for BytesPerSecond, of which 0 is no
// limit.
type Cleaning struct {
	Backoff        time.Duration // Options.CleanerBackoff
	KeyBytes       int64         // Options.CleanerBytes, from the next pass on
	BytesPerSecond int64         // Options.CleanerBytesPerSecond, at once
}

// SetCleaning changes what holds for compactions in all directories together.
func (m *Manager) SetCleaning(c Cleaning) {
	n := int64(len(m.dirs) + len(m.failed))
	for _, d := range m.dirs {
		own := *d.cleaning.Load()
		if c.Backoff > 0 {
			own.Backoff = c.Backoff
		}
		if c.KeyBytes > 0 {
			own.KeyBytes = max(c.KeyBytes/n, 1)
		}
		if own.BytesPerSecond = c.BytesPerSecond; own.BytesPerSecond > 0 {
			own.BytesPerSecond = max(own.BytesPerSecond/n, 1)
		}
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
