package storage

import (
	"fmt"
	"sync"

	"github.com/chronik-io/chronik/internal/storage/cleaner"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// StartMove is a request to move the start of a log.
type StartMove struct {
	Log *Log
	// To is the new start, at most the log end. A log that begins there or later stays unchanged.
	// PresentStart makes durable where the log begins when it is its turn.
	To   int64
	Only Only
	// Err is the result, nil if the new start is durable. It matches ErrOffsetOutOfRange,
	// ErrFencedEpoch, ErrClosed, or ErrFailed.
	Err error

	gone        []cleaner.Removal // the parts that retention removes
	expires     int64             // Verdict.Expires: retention takes the last copy of the records below
	needsCommit bool              // a checkpoint must follow
	// discarded is the number of bytes, from offset from on, that were never written to a segment.
	from, discarded int64
}

// PresentStart is StartMove.To for a start that has moved in memory, and whose checkpoint failed.
// An offset would move the log again if it has begun again below meanwhile.
const PresentStart = -1

// MoveStarts moves the starts of logs; see Dir.MoveStarts.
func (m *Manager) MoveStarts(moves []StartMove) {
	inDirs(moves, func(x *StartMove) *Log { return x.Log }, (*Dir).MoveStarts)
}

// inDirs calls do with the items of each directory, concurrently for all directories.
func inDirs[T any](items []T, log func(*T) *Log, do func(*Dir, []T)) {
	byDir := map[*Dir][]int{}
	for i := range items {
		d := log(&items[i]).dir
		byDir[d] = append(byDir[d], i)
	}
	var wg sync.WaitGroup
	for d, at := range byDir {
		wg.Go(func() {
			part := make([]T, len(at))
			for k, i := range at {
				part[k] = items[i]
			}
			do(d, part)
			for k, i := range at {
				items[i] = part[k]
			}
		})
	}
	wg.Wait()
}

// MoveStarts moves the start of each log to the requested offset, and sets each Err. One checkpoint
// commits all of them. Then the segments that lie entirely below are removed.
//
// Writers do not wait for the checkpoint, so segments may be sealed and added before the removal.
// That is harmless, since the journal has everything above the recovery point.
func (d *Dir) MoveStarts(moves []StartMove) {
	var logs []*Log // for which a checkpoint must follow
	for i := range moves {
		m := &moves[i]
		if d.stopping() {
			m.Err = fmt.Errorf("move the start of %s: %w", m.Log, ErrClosed)
			continue
		}
		if m.Err = m.Log.raiseStart(m); m.needsCommit {
			logs = append(logs, m.Log)
		}
	}
	if len(logs) == 0 {
		return
	}
	err := d.commitRule(skipStartCommit, logs...)
	for i := range moves {
		m := &moves[i]
		switch {
		case !m.needsCommit:
		case err != nil: // the disk may have either checkpoint: remove nothing
			m.Err = fmt.Errorf("%w: move the start of %s to %d: %w", ErrFailed, m.Log, m.To, err)
		default:
			m.Log.dropBelow(m)
		}
		if m.needsCommit { // the start moved in memory, even if the checkpoint failed
			m.Log.observer().StartMoved()
		}
	}
}

// raiseStart moves the start in memory. It sets m.needsCommit if a checkpoint must follow.
func (l *Log) raiseStart(m *StartMove) error {
	if m.To != PresentStart {
		if m.To <= l.startSynced.Load() && len(m.gone) == 0 {
			return nil
		}
		if err := l.awaitDurable(m.To, m.Only); err != nil {
			return fmt.Errorf("move the start of %s to %d: %w", l, m.To, err)
		}
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if m.To == PresentStart {
		if m.To = l.logStart.Load(); m.To <= l.startSynced.Load() {
			return nil
		}
	}
	if err := l.startMovable(m.To); err != nil {
		return err
	}
	if err := l.keepProducers(l.firstAbove(m.To)); err != nil { // a start removes what is below the log start
		return fmt.Errorf("%w: move the start of %s to %d: %w", ErrFailed, l, m.To, err)
	}
	l.producersMu.Lock()
	if err := l.onlyLocked(m.Only); err != nil {
		l.producersMu.Unlock()
		return fmt.Errorf("move the start of %s to %d: %w", l, m.To, err)
	}
	l.mu.Lock()
	l.logStart.Store(max(l.logStart.Load(), m.To))
	l.epochs.CutStart(m.To)
	l.noteLocked(func(h *Hold) { h.expired = max(h.expired, m.expires) })
	m.from, m.discarded = l.flushed, l.tail.unflushedBytes()
	gone := l.discardLocked(m.To)
	m.discarded -= l.tail.unflushedBytes()
	m.needsCommit = true
	l.mu.Unlock()
	l.producersMu.Unlock()
	l.dir.memory.drop(gone)
	return nil
}

// startMovable returns why the start cannot move now. The caller holds flushMu.
func (l *Log) startMovable(to int64) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.refusedLocked(loglife.Start); err != nil {
		return fmt.Errorf("move the start of %s to %d: %w", l, to, err)
	}
	if end := l.durable.Load(); to > end {
		return fmt.Errorf("%w: log start %d of %s is beyond its durable end %d", ErrOffsetOutOfRange, to, l, end)
	}
	return nil
}

// firstAbove returns how many segments go with the records below an offset; the last one stays.
func (l *Log) firstAbove(to int64) (n int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for n+1 < len(l.segments) && l.end(n) <= to {
		n++
	}
	return n
}

// discardLocked moves the recovery point to the log end if the whole log lies below the new start.
// Then chunks in memory need not be written to a segment, and segments need not be synced. It
// returns the chunks to release. The caller holds flushMu, producersMu and mu. to is at most the
// durable end, so that no chunk below it is in flight.
func (l *Log) discardLocked(to int64) (gone []*chunk) {
	rest := l.tail.chunks[l.tail.flushed:]
	end, lsn := l.flushed, l.flushedLSN
	if n := len(rest); n > 0 {
		end, lsn = rest[n-1].next, rest[n-1].last
	}
	if !l.life.state.Allows(loglife.Append) || end != l.logEnd.Load() || end > to || end == l.rp.Offset || l.heldFromLocked() < end {
		return nil
	}
	if l.dir.opt.broken.has(forgetProducers) {
		l.producers.Cut(l.flushed)
	}
	l.markProducersDurable(end)
	l.producers.MarkSynced()
	gone = l.tail.cutEnd(-1)
	l.empty(end, lsn)
	l.lostLocked(end)
	return gone
}

// dropBelow removes the segments that lie entirely below a start that is in a checkpoint. Readers
// no longer see them; their files are deleted after a delay.
func (l *Log) dropBelow(m *StartMove) {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.logStart.Load() >= m.To { // no truncation has happened since
		l.startSynced.Store(max(l.startSynced.Load(), m.To))
	}
	n := l.countBelow(m.To)
	if n > 0 {
		if err := l.keepProducers(n); err != nil {
			l.dir.logOnce(l, "segments below the log start stay until the next retention run", err)
			return
		}
	}
	gone, end := l.unlist(n)
	for i, s := range gone {
		next := end
		if i+1 < len(gone) {
			next = gone[i+1].Base()
		}
		l.dir.reportRemoved(m, s.Base(), next, s.Size(), true)
		l.dir.retire(l, s)
	}
	if m.discarded > 0 {
		l.dir.reportRemoved(m, m.from, m.To, m.discarded, false)
	}
}

// countBelow returns how many of the first segments end at or below an offset and may go. The
// caller holds flushMu.
func (l *Log) countBelow(below int64) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.life.state.Allows(loglife.Start) {
		return 0 // the next retention run removes them
	}
	below = min(below, l.logStart.Load(), l.rp.Offset)
	held := l.heldFromLocked()
	l.retained = held < below
	below = min(below, held)
	for n < len(l.segments) && l.end(n) <= below {
		n++
	}
	if n == len(l.segments) && n > 0 && l.segments[n-1].Size() == 0 && l.segments[n-1].Base() == l.flushed {
		n-- // it takes no space, and a flush may be writing to it
	}
	return n
}

// unlist removes the first n segments from the log's list, and returns the offset at which the
// others begin. The caller holds flushMu.
func (l *Log) unlist(n int) (gone []*segment.Segment, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || !l.life.state.Allows(loglife.Start) {
		return nil, 0
	}
	gone, end = l.segments[:n:n], l.end(n-1)
	l.lostLocked(end)
	l.segments = l.segments[n:]
	for len(l.rp.Segments) > 0 && l.rp.Segments[0].Base < end {
		l.rp.Segments = l.rp.Segments[1:]
	}
	return gone, end
}
