package storage

import "slices"

// admitted is the part of a log's queue that may be committed now.
type admitted uint8

const (
	nothing admitted = iota
	markers
	everything
)

// admittedLocked returns what may be committed: nothing before a log with many segments to write is
// flushed, and otherwise as much as the memory that is left allows. If that is not all,
// markers may overtake the records of clients that wait for it: until a marker is there, readers
// wait, and so does the next transaction of its producer. It overtakes no record of its own
// transaction that was acknowledged; any other is refused behind it. The caller holds queueMu, and
// the queue is not empty.
func (l *Log) admittedLocked() admitted {
	if l.awaitsFlush() {
		return nothing
	}
	kind := kindOf(l)
	switch {
	case l.dir.memory.admit(l, kind):
		return everything
	case kind == ofClients && l.markers > 0 && !l.dir.opt.broken.has(markersWait) && l.dir.memory.admit(l, ofBroker):
		return markers
	}
	return nothing
}

// takeLocked removes the next group from the queue and returns it with its size in bytes. A group
// is the whole queue, but at most one chunk, because memory is admitted per chunk. A gap is a chunk
// of its own. The caller holds queueMu.
func (l *Log) takeLocked(next admitted) (group []*Append, size int) {
	if next == markers {
		return l.takeMarkersLocked()
	}
	n := 0
	for n < len(l.queue) && (n == 0 || size+len(l.queue[n].Batches) <= chunkTarget && !l.queue[n].isGap()) {
		size += len(l.queue[n].Batches)
		l.countLocked(l.queue[n])
		if n++; l.queue[n-1].isGap() {
			break
		}
	}
	group = l.queue
	if n == len(group) {
		l.queue, l.spare = l.spare[:0], nil
		return group, size
	}
	group = slices.Clone(group[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	return group, size
}

// takeMarkersLocked is takeLocked for markers only; the caller holds the same mutexes.
func (l *Log) takeMarkersLocked() (group []*Append, size int) {
	rest := l.queue[:0]
	for _, a := range l.queue {
		if a.Kind == Marker && size < chunkTarget {
			group, size = append(group, a), size+len(a.Batches)
			l.countLocked(a)
			continue
		}
		rest = append(rest, a)
	}
	clear(l.queue[len(rest):])
	l.queue = rest
	return group, size
}

// countLocked counts an append that leaves the queue. The caller holds queueMu.
func (l *Log) countLocked(a *Append) {
	if a.Kind == Marker {
		l.markers--
	}
}

// Cancel removes an append that is still queued, and reports whether it did. Then no offsets are
// assigned to it, and its bytes are no longer needed.
func (l *Log) Cancel(a *Append) bool {
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	i := slices.Index(l.queue, a)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	l.countLocked(a)
	return true
}
