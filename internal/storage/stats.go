package storage

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// stats are the directory's metrics with their label values resolved.
type stats struct {
	groupRecords, groupBytes, syncSeconds                      prometheus.Observer
	wait                                                       *prometheus.HistogramVec
	sweeps, rolls, journalErrors, segmentErrors                prometheus.Counter
	cacheReads, diskReads, lentReads, truncated, frames, bytes prometheus.Counter
	recovery, offline, retiredBytes                            prometheus.Gauge
	removed, removedBytes                                      *prometheus.CounterVec // by dir and reason
	refused                                                    prometheus.Counter
	cleaner                                                    cleanerStats
	scrub                                                      scrubStats
}

// scrubStats are the metrics of reading sealed segments.
type scrubStats struct {
	bytes  prometheus.Counter
	oldest prometheus.Gauge
}

func newStats(m *metrics.Storage, dir string) stats {
	return stats{
		groupRecords: m.GroupRecords.WithLabelValues(dir), groupBytes: m.GroupBytes.WithLabelValues(dir),
		syncSeconds: m.SyncSeconds.WithLabelValues(dir), wait: m.WaitSeconds,
		sweeps: m.Sweeps.WithLabelValues(dir), rolls: m.Rolls.WithLabelValues(dir),
		journalErrors: m.JournalErrors.WithLabelValues(dir), segmentErrors: m.SegmentErrors.WithLabelValues(dir),
		cacheReads: m.Reads.WithLabelValues(metrics.ReadFromCache), diskReads: m.Reads.WithLabelValues(metrics.ReadFromDisk),
		lentReads: m.Reads.WithLabelValues(metrics.ReadLent),
		truncated: m.TruncatedBytes.WithLabelValues(dir), frames: m.RecoveryFrames.WithLabelValues(dir),
		bytes:    m.RecoveryBytes.WithLabelValues(dir),
		recovery: m.RecoverySeconds.WithLabelValues(dir), offline: m.Offline.WithLabelValues(dir),
		retiredBytes: m.Retention.Waiting.WithLabelValues(dir), removed: m.Retention.Segments, removedBytes: m.Retention.Bytes,
		refused: m.LowSpaceRefused.WithLabelValues(dir),
		cleaner: newCleanerStats(&m.Cleaner, dir),
		scrub:   scrubStats{m.ScrubBytes.WithLabelValues(dir), m.ScrubOldest.WithLabelValues(dir)},
	}
}

// cleanerStats are the metrics of compaction.
type cleanerStats struct {
	passes, failures, read, written, records          prometheus.Counter
	lastRun, lastSeconds, maxDirty, stopped, mapBytes prometheus.Gauge
}

func newCleanerStats(m *metrics.Cleaner, dir string) cleanerStats {
	return cleanerStats{
		passes: m.Passes.WithLabelValues(dir), failures: m.Failures.WithLabelValues(dir), read: m.Read.WithLabelValues(dir),
		written: m.Written.WithLabelValues(dir), records: m.Records.WithLabelValues(dir), lastRun: m.LastRun.WithLabelValues(dir),
		lastSeconds: m.LastSeconds.WithLabelValues(dir), maxDirty: m.MaxDirty.WithLabelValues(dir), stopped: m.Stopped.WithLabelValues(dir),
		mapBytes: m.MapBytes.WithLabelValues(dir),
	}
}

func (s *stats) group(g journal.GroupStats) {
	s.groupRecords.Observe(float64(g.Records))
	s.groupBytes.Observe(float64(g.Bytes))
	s.syncSeconds.Observe(g.Sync.Seconds())
}

// waitSeries is the wait histogram of a durability profile, resolved once per log.
type waitSeries struct {
	profile string
	prometheus.Observer
}

// observeWait records how long a chunk waited until its profile's condition held.
func (d *Dir) observeWait(c *chunk) {
	name := c.log.cfg.Load().Profile.Name
	s := c.log.wait.Load()
	if s == nil || s.profile != name {
		s = &waitSeries{name, d.stats.wait.WithLabelValues(name)}
		c.log.wait.Store(s)
	}
	s.Observe(time.Since(c.queued).Seconds())
}

// Usage is a directory's use of resources, for metrics.
type Usage struct {
	JournalBytes, JournalLimit, DeferredBytes, CachedBytes int64
	OpenFiles, MaxOpenFiles                                int
}

// Usage returns the current usage.
func (d *Dir) Usage() Usage {
	return Usage{
		JournalBytes: d.journal.Used(), JournalLimit: d.sizes.All,
		DeferredBytes: d.memory.deferred.Load(), CachedBytes: d.memory.cached.Load(), OpenFiles: d.files.Open(),
		MaxOpenFiles: d.opt.OpenFiles,
	}
}

// Segments returns the number of the log's segments.
func (l *Log) Segments() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.segments)
}

// DirtyRatio returns the dirty part, 0 to 1, of the log's data that can be compacted; false if the
// log is not compacted or the ratio is not available now. It may read the disk.
func (l *Log) DirtyRatio() (float64, bool) {
	if !l.cfg.Load().Cleanup.Compact || l.Err() != nil {
		return 0, false
	}
	x, err := l.measureDirt(time.Now())
	return x.Ratio(), err == nil
}

func (d *Dir) segmentError(l *Log, what string, err error) {
	d.stats.segmentErrors.Inc()
	d.logOnce(l, what, err)
}

func (d *Dir) repaired(l *Log) {
	d.log.Info("partition accepts records again", zap.Stringer("log", l))
	d.failed.Ended(series.Key(l.String(), ""))
}

// logOnce logs the first of a series of failures; of the repetitions it logs ever fewer. An
// ErrClosed is not a failure.
func (d *Dir) logOnce(l *Log, what string, err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	key := series.Key("", what)
	if l != nil {
		key = series.Key(l.String(), what)
	}
	n, say := d.failed.Failed(key, err)
	if !say {
		return
	}
	fields := []zap.Field{zap.Int("times", n), zap.Error(err)}
	if l != nil {
		fields = append(fields, zap.Stringer("log", l))
	}
	d.log.Error(what, fields...)
}

// standstill is the last state of a journal that was read.
type standstill struct {
	mu       sync.Mutex
	progress uint64
	commit   time.Time // when the first commit of a series began that hangs or fails; zero: there is none
	since    time.Time // of the first reading in which a write or fdatasync waited with this progress; zero: none waits
}

// Stalled returns for how long records have waited for the journal while no write or fdatasync has
// ended; 0 if none waits. That time begins with the first call that sees it. If a requested commit
// of the checkpoint has hung or failed for longer, Stalled returns that. It does not apply to a
// directory that has failed; see Err. Stalled acquires the journal's lock.
func (d *Dir) Stalled() time.Duration {
	d.still.mu.Lock()
	defer d.still.mu.Unlock()
	progress, waiting := d.journal.Pulse()
	now := time.Now()
	stalled := d.still.check(progress, waiting, now)
	if since := d.still.commit; !since.IsZero() {
		stalled = max(stalled, now.Sub(since))
	}
	return stalled
}

// commits records that a requested commit begins, or has ended without error.
func (s *standstill) commits(begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !begins {
		s.commit = time.Time{}
	} else if s.commit.IsZero() {
		s.commit = time.Now()
	}
}

func (s *standstill) check(progress uint64, waiting bool, now time.Time) time.Duration {
	switch {
	case !waiting:
		s.since = time.Time{}
		return 0
	case s.since.IsZero() || progress != s.progress:
		s.since, s.progress = now, progress
		return 0
	default:
		return now.Sub(s.since)
	}
}
