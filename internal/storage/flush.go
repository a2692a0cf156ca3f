package storage

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// flushRun is the approximate maximum size of a write to a segment, in bytes.
const flushRun = 4 << 20

// uncachedWriteMin is the minimum size of a segment write that bypasses the page cache during a
// bulk load (see turnover). Its newest bytes are in the tail. The system batches smaller writes, so
// they always go through the page cache.
const uncachedWriteMin = 256 << 10

// lagWindow is how long after a read from a segment the log's readers count as lagging. They will
// soon read from segments what is written now, so these writes go through the page cache.
const lagWindow = time.Minute

// lagging reports whether a reader has recently read from a segment.
func (l *Log) lagging(now time.Time) bool {
	at := l.lastSegmentRead.Load()
	return at != 0 && now.UnixNano()-at < int64(lagWindow)
}

// turnoverTime is how long the page cache should keep segment writes: a reader that lags by less
// finds them there.
const turnoverTime = 2 * time.Minute

// turnover measures how fast a directory writes segments, and reports when that is too fast for the
// page cache to keep the writes for turnoverTime. Then caching them costs more than it brings,
// since each page evicts another.
type turnover struct {
	memory int64 // of the machine, in bytes; 0: unknown, nothing is too fast

	mu    sync.Mutex
	since time.Time
	bytes int64 // written since then
	fast  bool  // in the previous interval
}

// count counts written bytes, and reports whether they come too fast.
func (t *turnover) count(n int, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += int64(n)
	took := now.Sub(t.since)
	if took >= time.Second {
		t.fast = t.memory > 0 && float64(t.bytes)*float64(turnoverTime) >= float64(t.memory)*float64(took)
		t.since, t.bytes = now, 0
	}
	return t.fast
}

// flush writes the chunks that are ready to segments.
func (l *Log) flush() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	return l.flushLocked()
}

// flushLocked is flush for a caller that holds flushMu.
func (l *Log) flushLocked() error {
	if err := l.refused(loglife.Flush); err != nil {
		return err
	}
	if err := l.writeFlushable(); err != nil {
		return l.segmentFailed(err)
	}
	return nil
}

// writeFlushable writes the chunks that are durable in the journal to segments: those that the log
// has now, because others wait for the end of a flush, and appends may continue for ever. The
// caller holds flushMu.
func (l *Log) writeFlushable() error {
	l.mu.RLock()
	end := l.tail.end()
	l.mu.RUnlock()
	for {
		l.mu.Lock()
		var run []*chunk
		if l.flushed < end {
			run = l.tail.flushable(flushRun)
		}
		if !l.life.state.Allows(loglife.Flush | loglife.Repair) {
			run = nil
		}
		l.mu.Unlock()
		if len(run) == 0 {
			return nil
		}
		if err := l.writeRun(run); err != nil {
			return err
		}
	}
}

// active returns the last segment, nil if there is none.
func (l *Log) active() *segment.Segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.last()
}

// writeRun writes chunks to segments in order, and rolls when a segment is full. A gap has no bytes
// to write: it only moves the end of the segments.
func (l *Log) writeRun(run []*chunk) error {
	cfg := l.cfg.Load()
	limits := cfg.limits()
	for len(run) > 0 {
		if run[0].gap {
			l.chunksFlushed(run[:1])
			run = run[1:]
			continue
		}
		active, err := l.activeFor(run[0], cfg, limits)
		if err != nil {
			return err
		}
		n, size := 0, 0
		for n < len(run) && !run[n].gap && (n == 0 || !rolls(active, limits, run[0], size, run[n])) {
			size += len(run[n].data)
			n++
		}
		bufs := make([][]byte, n)
		for i, c := range run[:n] {
			bufs[i] = c.data
		}
		now, write := time.Now(), active.Append
		if l.dir.turnover.count(size, now) && size >= uncachedWriteMin && !l.lagging(now) {
			write = active.AppendUncached
		}
		if err := write(bufs, cfg.Segment.IndexInterval); err != nil {
			return err
		}
		active.AddAborted(l.abortedSince(run[0].base, run[n-1].next))
		l.chunksFlushed(run[:n])
		run = run[n:]
	}
	return nil
}

// activeFor returns the segment to which a chunk is written, a new one if the active segment is
// full.
func (l *Log) activeFor(c *chunk, cfg *Config, limits segment.Limits) (*segment.Segment, error) {
	active := l.active()
	l.mu.RLock()
	end := l.flushed
	l.mu.RUnlock()
	if active != nil && active.Size() == 0 && active.Base() < end {
		// The records for which the segment was created were discarded (discardLocked). A segment's
		// name is its first offset, so the next record needs another one.
		return l.addSegment(end, cfg)
	}
	if active != nil && active.Err() == nil && !active.Full(limits, len(c.data), c.next-1, c.maxTs) {
		return active, nil
	}
	if active != nil {
		if err := l.seal(active); err != nil {
			return nil, err
		}
	}
	return l.addSegment(c.base, cfg)
}

// addSegment creates a new active segment. Its directory entry is durable when addSegment returns.
func (l *Log) addSegment(base int64, cfg *Config) (*segment.Segment, error) {
	prealloc := int64(0)
	if cfg.Preallocate {
		prealloc = cfg.Segment.Bytes
	}
	create := segment.Create
	if now := l.state(); now == loglife.Opening || now == loglife.Offline {
		create = segment.Renew // the journal has everything beyond the recovery point
	}
	s, err := create(l.dir.files, l.path, base, prealloc)
	if err != nil {
		return nil, err
	}
	if before := l.active(); before != nil {
		l.establish(before, base)
	}
	snapshot, err := l.saveProducers(s)
	if err != nil {
		return nil, err
	}
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.debt.rolled(snapshot)
	l.mu.Unlock()
	return s, nil
}

// chunksFlushed records that the oldest unflushed chunks are in segments.
func (l *Log) chunksFlushed(run []*chunk) {
	last, bytes := run[len(run)-1], int64(0)
	for _, c := range run {
		bytes += c.cap
	}
	high := l.high()
	l.producersMu.Lock()
	l.producers.Advance(high)
	l.markProducersDurable(last.next)
	l.noteUnstableLocked()
	l.producersMu.Unlock()
	l.mu.Lock()
	l.tail.setFlushed(len(run))
	l.debt.chunks += len(run)
	l.flushed = last.next
	if l.lowestUnsynced == 0 {
		l.lowestUnsynced = run[0].first
	}
	if last.last != 0 {
		l.flushedLSN = last.last
	}
	l.mu.Unlock()
	l.dir.memory.flushed(l, bytes)
}

// markProducersDurable moves the durable end of the producer state to the end of the segments.
// Batches beyond it may still be discarded, so they must not push out batches that checkpoints
// store. The caller holds producersMu.
func (l *Log) markProducersDurable(end int64) {
	if !l.dir.opt.broken.has(liveProducers) {
		l.producers.MarkDurable(end)
	}
}

// eachBatch calls fn for each of the whole batches in p.
func eachBatch(p []byte, fn func(record.Batch)) {
	for len(p) > 0 {
		b, rest, err := record.Next(p)
		if err != nil {
			return
		}
		fn(b)
		p = rest
	}
}

// syncLocked syncs the active segment and moves the recovery point. The caller holds flushMu.
func (l *Log) syncLocked() error { return l.syncBy((*segment.Segment).Sync) }

// syncBy is syncLocked with a given way to sync the active segment.
func (l *Log) syncBy(sync func(*segment.Segment) error) error {
	if err := l.refused(loglife.Flush); err != nil {
		return err
	}
	if active := l.active(); active != nil {
		if err := sync(active); err != nil {
			return l.segmentFailed(err)
		}
	}
	l.synced()
	return nil
}

// synced moves the recovery point to the end of the segments, which have just been synced. The
// caller holds flushMu.
//
// The recovery point stays where it is while only a part of a carried frame is in segments: replay
// can only continue between frames. It also stays while quarantined frames are being replayed: the
// state of the producers is known at the recovery point and at the end of the replay, and not in
// between.
func (l *Log) synced() {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.tail.firstUnflushed(); c != nil && c.first != 0 && c.first == l.flushedLSN || l.life.replaying {
		return
	}
	l.rp.Offset = l.flushed
	l.rp.LSN = max(l.rp.LSN, l.flushedLSN)
	l.rp.Segments = l.extents()
	l.lowestUnsynced = 0
	l.producers.MarkSynced()
}

// segmentFailed records a failed write or sync of a segment. The journal still has the unsynced
// batches. The log accepts no appends until repair has written them to a new segment
// (replaceSegment). The caller holds flushMu.
func (l *Log) segmentFailed(err error) error {
	l.dir.segmentError(l, "segment could not be written; the log accepts no records until a new one has them", err)
	err = fmt.Errorf("%w: %s: %w", ErrFailed, l, err)
	l.applyEvent(loglife.SegmentFailed, err) // of a log that is being recovered, recovery handles the error
	return err
}

// flushAll writes all batches to synced segments. The caller has the right to commit, so nothing is
// added.
func (l *Log) flushAll() error {
	if err := l.awaitDurable(math.MaxInt64, Only{}); err != nil {
		return err
	}
	return l.flushAndSync()
}

// durableBackoff bounds the pause between two readings of the durable end, which a sync of 50 µs or
// of many milliseconds moves.
var durableBackoff = pause.Backoff{First: 50 * time.Microsecond, Most: 5 * time.Millisecond}

// awaitDurable requests an fdatasync of the journal and waits until the records below end are
// durable or the log has nothing in flight. An error means that they will not be durable for the
// time being, or that the role has changed: other records may get these offsets.
func (l *Log) awaitDurable(end int64, only Only) error {
	for looks := 1; l.durable.Load() < end && l.inFlight(); looks++ {
		if err := cmp.Or(l.Err(), l.mayChange(only)); err != nil {
			return err
		}
		l.dir.journal.Sync()
		if !l.dir.sleep(durableBackoff.After(looks)) {
			return ErrClosed
		}
	}
	return nil
}

// inFlight reports whether chunks of the log are not yet durable in the journal.
func (l *Log) inFlight() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := len(l.tail.chunks)
	return l.carrying || n > 0 && !l.tail.chunks[n-1].ready
}
