package storage

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// firstRetentionDelay is the maximum delay of the first retention run, which should not compete
// with the rest of startup.
const firstRetentionDelay = 30 * time.Second

// retentionLoop is the state of a directory's retention goroutine.
type retentionLoop struct {
	// The three have capacity 1, and are signaled without blocking by any goroutine.
	wake    chan struct{} // requests a run over all logs
	some    chan struct{} // requests a run over the logs in changed
	retired chan struct{} // a segment was retired

	urgent atomic.Bool // retired files are removed without delay

	mu      sync.Mutex
	pending []pendingDelete // bounded by what is removed within the longest file.delete.delay.ms
	waiting int64           // bytes in pending
	changed map[*Log]bool   // logs whose retention was configured since the last run over them
}

// pendingDelete is a segment that was removed from its log and whose file still exists.
type pendingDelete struct {
	due   time.Time
	seg   *segment.Segment
	bytes int64
}

func (k *retentionLoop) init() {
	k.wake, k.some, k.retired = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	k.changed = map[*Log]bool{}
}

// applyRetentionSoon requests a retention run over one log, because its configuration changed. A
// run over all of them would make a change of one topic cost as much as the broker has partitions.
func (d *Dir) applyRetentionSoon(l *Log) {
	k := &d.retention
	k.mu.Lock()
	k.changed[l] = true
	k.mu.Unlock()
	signal(k.some)
}

// takeChanged returns the logs whose retention was configured since the last call.
func (k *retentionLoop) takeChanged() []*Log {
	k.mu.Lock()
	defer k.mu.Unlock()
	logs := slices.Collect(maps.Keys(k.changed))
	clear(k.changed)
	return logs
}

// Reclaim requests a retention run over all logs of the directory because the disk is full. It also
// cancels the delay before files are deleted. It does not wait for the run.
func (d *Dir) Reclaim() {
	d.retention.urgent.Store(true)
	signal(d.retention.wake)
}

// runRetention is the retention goroutine. It applies retention to all logs and deletes the files
// of removed segments. Close stops it without waiting for these files; the next start deletes them.
func (d *Dir) runRetention() {
	label.Goroutine("storage retention", d.path)
	due := time.Now().Add(min(d.opt.RetentionInterval, firstRetentionDelay)) // of look
	look := time.NewTimer(time.Until(due))
	defer look.Stop()
	bury := time.NewTimer(time.Hour)
	defer bury.Stop()
	for {
		urgent, all := false, true
		select {
		case <-d.quit:
			return
		case <-look.C:
			all = d.applyRetention()
			due = time.Now().Add(d.opt.RetentionInterval)
			look.Reset(d.opt.RetentionInterval)
		case <-d.retention.wake:
			urgent = d.retention.urgent.Swap(false)
			all = d.applyRetention()
		case <-d.retention.some:
			all = d.applyRetentionOf(d.retention.takeChanged())
		case <-d.retention.retired:
		case <-bury.C:
		}
		if soon := time.Now().Add(firstRetentionDelay); !all && soon.Before(due) { // never later
			due = soon
			look.Reset(firstRetentionDelay)
		}
		bury.Reset(d.removeDue(urgent))
	}
}

// compactLogs is the goroutine that compacts logs one at a time. It is separate from runRetention,
// since a pass may take hours and must not delay retention when the disk is full.
func (d *Dir) compactLogs() {
	label.Goroutine("storage compaction", d.path)
	again := time.NewTimer(d.cleaning.Load().Backoff)
	defer again.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-d.cleaningChanged:
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

// Cleaning configures compaction and the reading of sealed segments. Zero values select the
// defaults.
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
	// Scrub is the interval within which each sealed segment is read
	// (chronik.log.scrub.interval.ms); negative: none is. Default 7 days.
	Scrub time.Duration
}

// share returns the configuration for each of several directories. Each runs at most one
// pass at a time.
func (c Cleaning) share(dirs int) Cleaning {
	c.Scrub = cmp.Or(c.Scrub, 7*24*time.Hour)
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
	own := c.share(max(len(m.dirs)+len(m.failed), 1))
	for _, d := range m.dirs {
		if own != *d.cleaning.Load() {
			d.cleaning.Store(&own)
			signal(d.cleaningChanged)
			signal(d.scrubbing.changed)
		}
	}
}

// retire renames the files of a segment that was removed from its log, and schedules their
// deletion. The caller holds the log's flushMu, so that no segment of the same name is created
// meanwhile.
func (d *Dir) retire(l *Log, s *segment.Segment) {
	if err := s.Retire(); err != nil {
		d.logOnce(l, "renaming the files of a removed segment failed; the next start deletes them", err)
		return
	}
	delay := l.cfg.Load().Cleanup.DeleteDelay
	if d.CanCreate() != nil {
		delay = 0 // space is low
	}
	k := &d.retention
	k.mu.Lock()
	k.pending = append(k.pending, pendingDelete{time.Now().Add(delay), s, s.Size()})
	k.waiting += s.Size()
	d.stats.retiredBytes.Set(float64(k.waiting))
	k.mu.Unlock()
	signal(k.retired)
}

// removeDue deletes the files whose delay has passed, or all, and returns the time until the next
// ones are due.
func (d *Dir) removeDue(all bool) time.Duration {
	k, now := &d.retention, time.Now()
	k.mu.Lock()
	var due, left []pendingDelete
	next := time.Hour
	for _, g := range k.pending {
		if wait := g.due.Sub(now); wait > 0 && !all {
			left, next = append(left, g), min(next, wait)
			continue
		}
		due = append(due, g)
		k.waiting -= g.bytes
	}
	k.pending = left
	k.mu.Unlock()
	for _, g := range due {
		if d.stopping() {
			return next
		}
		if err := g.seg.RemoveRetired(); err != nil {
			d.logOnce(nil, "deleting the files of a removed segment failed; the next start tries again", err)
		}
	}
	k.mu.Lock()
	d.stats.retiredBytes.Set(float64(k.waiting))
	k.mu.Unlock()
	return next
}

// reportRemoved logs and counts the removal of a part of a log.
func (d *Dir) reportRemoved(m *StartMove, base, end, bytes int64, file bool) {
	reason, why := removalReason(m, base)
	d.stats.removedBytes.WithLabelValues(d.path, reason).Add(float64(bytes))
	what := "records removed that were only in the journal"
	if file {
		d.stats.removed.WithLabelValues(d.path, reason).Inc()
		what = "segment removed"
	}
	d.log.Info(what, zap.String("topic", m.Log.topic), zap.Int32("partition", m.Log.id.Partition), zap.Int64("from", base),
		zap.Int64("to", end), zap.Int64("bytes", bytes), zap.String("reason", reason), zap.String("why", why))
}
