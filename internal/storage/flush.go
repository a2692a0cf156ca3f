package storage

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// flushRun is how many bytes one write to a segment takes at most, about.
const flushRun = 4 << 20

// onceAt is how many bytes a write to a segment has, at least, for which memory of
// the system's is spared where a bulk load turns it over (turnover). Its newest
// bytes are in the tail. Smaller writes are left to the system, which writes many of
// them at once.
const onceAt = 256 << 10

// laggards is for how long after a read from a segment the log's readers are taken
// to be behind the tail, so that what is written will be read from segments soon.
const laggards = time.Minute

// lagging says whether somebody read from segments lately.
func (l *Log) lagging(now time.Time) bool {
	at := l.readAt.Load()
	return at != 0 && now.UnixNano()-at < int64(laggards)
}

// flush writes what may be written to segments.
func (l *Log) flush() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	return l.flushLocked()
}

// flushLocked needs flushMu.
func (l *Log) flushLocked() error {
	if err := l.refused(loglife.Flush); err != nil {
		return err
	}
	if err := l.writeFlushable(); err != nil {
		return l.segmentFailed(err)
	}
	return nil
}

// writeFlushable writes what is durable in the journal to segments. It needs flushMu.
func (l *Log) writeFlushable() error {
	for {
		l.mu.Lock()
		run := l.tail.flushable(flushRun)
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

// writeRun writes chunks in order, rolling where a segment is full.
func (l *Log) writeRun(run []*chunk) error {
	cfg := l.cfg.Load()
	limits := cfg.limits()
	for len(run) > 0 {
		active, err := l.activeFor(run[0], cfg, limits)
		if err != nil {
			return err
		}
		n, size := 0, 0
		for n < len(run) && (n == 0 || !rolls(active, limits, run[0], size, run[n])) {
			size += len(run[n].data)
			n++
		}
		bufs := make([][]byte, n)
		for i, c := range run[:n] {
			bufs[i] = c.data
		}
		now, write := time.Now(), active.Append
		if l.dir.turnover.count(size, now) && size >= onceAt && !l.lagging(now) {
			write = active.AppendUncached
		}
		if err := write(bufs, cfg.Segment.IndexInterval); err != nil {
			return err
		}
		l.chunksFlushed(run[:n])
		run = run[n:]
	}
	return nil
}

// activeFor returns the segment that takes a chunk, a new one if the last is full.
func (l *Log) activeFor(c *chunk, cfg *Config, limits segment.Limits) (*segment.Segment, error) {
	active := l.active()
	l.mu.RLock()
	end := l.flushed
	l.mu.RUnlock()
	if active != nil && active.Size() == 0 && active.Base() < end {
		// The records that it was made for were discarded (discardLocked): a segment is
		// named after what it may hold.
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

// addSegment makes a new active segment whose directory entry is durable.
func (l *Log) addSegment(base int64, cfg *Config) (*segment.Segment, error) {
	prealloc := int64(0)
	if cfg.Preallocate {
		prealloc = cfg.Segment.Bytes
	}
	create := segment.Create
	if l.state() == loglife.Opening {
		create = segment.Renew // what follows the recovery point is in the journal
	}
	s, err := create(l.dir.files, l.path, base, prealloc)
	if err != nil {
		return nil, err
	}
	l.saveProducers(s)
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	return s, nil
}

// chunksFlushed notes that chunks, the oldest unflushed ones, are in segments.
func (l *Log) chunksFlushed(run []*chunk) {
	last, bytes := run[len(run)-1], int64(0)
	for _, c := range run {
		bytes += c.cap
	}
	l.smu.Lock()
	l.settleProducers(last.next)
	l.smu.Unlock()
	l.mu.Lock()
	l.tail.setFlushed(len(run))
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

// settleProducers advances the end that the producer state answers for besides the log's. It
// follows the segments: batches that are not durable yet may never come to be, and must
// push none out that checkpoints store. The caller holds smu.
func (l *Log) settleProducers(end int64) {
	if !l.dir.opt.broken.has(liveProducers) {
		l.producers.MarkDurable(end)
	}
}

// eachBatch calls fn for the batches in p, which are whole.
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

// syncLocked needs flushMu.
func (l *Log) syncLocked() error { return l.syncBy((*segment.Segment).Sync) }

// syncBy is syncLocked with another way to sync the active segment.
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

// synced moves the recovery point to the end of what is in segments, all of
// which has just been synced. It needs flushMu.
//
// It stays where it is while only a part of a carried frame is in segments: a
// recovery point between frames is one that replay can continue.
func (l *Log) synced() {
	l.mu.Lock()
	if c := l.tail.firstUnflushed(); c != nil && c.first != 0 && c.first == l.flushedLSN {
		l.mu.Unlock()
		return
	}
	l.rp.Offset = l.flushed
	l.rp.LSN = max(l.rp.LSN, l.flushedLSN)
	l.rp.Segments = l.extents()
	l.lowestUnsynced = 0
	l.mu.Unlock()
}

// segmentFailed notes that a write or sync of a segment failed. What is not synced is
// in the journal; the log takes no appends until it has been written into a new segment
// (replaceSegment). It needs flushMu.
func (l *Log) segmentFailed(err error) error {
	l.dir.segmentError(l, err)
	err = fmt.Errorf("%w: %s: %w", ErrFailed, l, err)
	if l.on(loglife.SegmentFailed, err) == loglife.Opening {
		return err // the start decides
	}
	l.dir.run(func() { l.Commit(nil) }) // what waits for memory is refused now
	l.dir.repair(l)
	return err
}

// flushAll brings everything into synced segments. The caller owns the right to
// commit, so that nothing is added.
func (l *Log) flushAll() error {
	if err := l.awaitDurable(math.MaxInt64); err != nil {
		return err
	}
	return l.flushAndSync()
}

// awaitDurable asks the journal for a datasync, and waits until what was numbered below
// an offset is durable, or nothing of the log is in flight. An error means that this
// won't be for the time being.
func (l *Log) awaitDurable(end int64) error {
	for wait := 50 * time.Microsecond; l.durable.Load() < end && l.inFlight(); wait = min(2*wait, 5*time.Millisecond) {
		if err := l.Err(); err != nil {
			return err
		}
		l.dir.journal.Sync()
		if !l.dir.sleep(wait) {
			return ErrClosed
		}
	}
	return nil
}

// inFlight reports whether the journal has yet to make something of the log durable.
func (l *Log) inFlight() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := len(l.tail.chunks)
	return l.carrying || n > 0 && !l.tail.chunks[n-1].ready
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
