package storage

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/record"
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
	for {
		l.mu.Lock()
		run := l.tail.flushable(flushRun)
		err := l.offline
		if err == nil {
			err = l.failure
		}
		if l.closed {
			run = nil
		}
		l.mu.Unlock()
		if len(run) == 0 || err != nil {
			return err
		}
		if err := l.writeRun(run); err != nil {
			return l.segmentFailed(err)
		}
	}
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
		if l.dir.turnover.wrote(size, now) && size >= onceAt && !l.lagging(now) {
			write = active.AppendOnce
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
	l.mu.RLock()
	var active *segment.Segment
	if n := len(l.segments); n > 0 {
		active = l.segments[n-1]
	}
	end := l.flushed
	l.mu.RUnlock()
	if active != nil && active.Size() == 0 && active.Base() < end {
		// What it was made for went without coming to it (discardLocked). A start looks
		// for what was written through in a segment that begins at the recovery point.
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
	if l.dir.recovering && l.mode == journalled {
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
// For a write-through log that is when they count as written.
func (l *Log) chunksFlushed(run []*chunk) {
	last := run[len(run)-1]
	bytes := int64(0)
	for _, c := range run {
		bytes += c.cap
	}
	l.smu.Lock()
	l.settle(last.next)
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
	through := l.mode == writeThrough
	l.mu.Unlock()
	l.dir.memory.flushed(l, bytes)
	if through {
		l.written.Store(last.next)
		for _, c := range run {
			l.dir.observeWait(c)
		}
		l.dir.wrote(l)
		l.observer().Advanced()
	}
}

// settle advances the end that the producer state answers for besides the log's. It
// follows the segments: batches that are not durable yet may never come to be, and must
// push none out that checkpoints store. The caller holds smu.
func (l *Log) settle(end int64) {
	if !l.dir.opt.broken.liveProducers {
		l.producers.Settle(end)
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

// sync makes what is in segments durable there and moves the recovery point.
func (l *Log) sync() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	return l.syncLocked()
}

// syncLocked needs flushMu.
func (l *Log) syncLocked() error { return l.syncBy((*segment.Segment).Sync) }

// syncBy is syncLocked with another way to sync the active segment.
func (l *Log) syncBy(sync func(*segment.Segment) error) error {
	l.mu.RLock()
	err := l.offline
	if err == nil {
		err = l.failure
	}
	if l.closed {
		err = fmt.Errorf("sync %s: %w", l, ErrClosed)
	}
	var active *segment.Segment
	if n := len(l.segments); n > 0 {
		active = l.segments[n-1]
	}
	l.mu.RUnlock()
	if err != nil {
		return err
	}
	if active != nil {
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
	moved := l.rp.offset != l.flushed
	l.rp.offset = l.flushed
	l.rp.lsn = max(l.rp.lsn, l.flushedLSN)
	l.rp.segments = l.extentsLocked()
	l.lowestUnsynced = 0
	through := l.mode == writeThrough
	l.mu.Unlock()
	if through && moved {
		l.durable.Store(l.rp.offset)
		l.observer().Advanced()
	}
}

// extentsLocked lists the segments with the bytes that are synced.
func (l *Log) extentsLocked() []extent {
	list := make([]extent, len(l.segments))
	for i, s := range l.segments {
		list[i] = extent{base: s.Base(), size: s.Synced()}
	}
	return list
}

// segmentFailed decides what a failed write or sync of a segment means. It
// needs flushMu.
//
// Journalled: what is not synced is in the journal; the log takes no appends
// until it has been written into a new segment (rewrite). Write-through: what
// is not written fails; what was written is in no journal, so the log goes on
// only if the file did not fail (it could not be opened, or a next one not be
// made), or if a disk that is merely full let it be synced; and in a new file.
func (l *Log) segmentFailed(err error) error {
	l.dir.segmentError(l, err)
	err = fmt.Errorf("%w: %s: %w", ErrFailed, l, err)
	l.mu.Lock()
	l.failure = err
	through := l.mode == writeThrough
	var active *segment.Segment
	if n := len(l.segments); n > 0 {
		active = l.segments[n-1]
	}
	l.mu.Unlock()
	l.dir.run(func() { l.Commit(nil) }) // what waits for memory is refused now
	dead := active != nil && active.Err() != nil
	if through && dead && !noSpace(err) {
		l.goOffline(err)
		return err
	}
	if through && dead {
		if e := active.Settle(); e != nil {
			l.goOffline(e)
			return err
		}
	}
	l.dir.repair(l)
	return err
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
