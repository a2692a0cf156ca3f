package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/statefile"
)

// Each segment has a file with the producer state as of its base offset, so that a truncation reads
// the headers of one segment and not of the whole log. The file is a state file of kind
// "producers": base offset i64, little endian, then the state as producers.State.Append encodes it.
//
// The file is a cache, and its checksum is compared when it is read. If it is missing or damaged,
// the file of an older segment and the headers from there on give the same state. For transactions
// that is not enough: the first records of an open one may have been deleted. So the file is synced
// before the segment is used if the state has transactions. It never holds the state of a different
// history, in which other batches had these offsets: creating a segment removes existing files
// under its names and writes the file before the directory is synced, and the segment is used only
// after that sync. A crash may leave an older file that was removed, or a file that was not written
// completely. Either it belongs to a segment that no checkpoint lists, and the start removes or
// creates segment and file again; or the sync covered it, and a read finds nothing, or a part of
// the new content.
const (
	producersKind    = "producers"
	producersVersion = 2
)

// noProducers returns an empty producer state with the log's bounds.
func (l *Log) noProducers() producers.State {
	return producers.State{Expiry: l.dir.opt.ProducerExpiry, Limit: l.dir.opt.ProducersPerLog, Everywhere: l.dir.opt.open}
}

// ProducersBelow returns what the log knows of its producers below an offset, for a log that begins
// there (Truncation.Producers); nil if that is nothing. All batches below must be committed. It
// does not wait for the disk. The bytes are as producers.State.Append encodes them. The error is
// that of Readable: a log that is gone knows nothing.
func (l *Log) ProducersBelow(end int64) ([]byte, error) {
	l.producersMu.Lock()
	known := l.producers.Below(end)
	l.producersMu.Unlock()
	if _, err := l.Readable(); err != nil || known.Len() == 0 {
		return nil, err
	}
	return known.Append(nil, end), nil
}

// saveProducers writes the producer state next to a new segment. The first segment of a log without
// producers needs none. Those to which a replay of quarantined frames rolls have none, because the
// state is known only for the recovery point, where the replay begins, and for the end of the log.
// An error matters only if the state has transactions; otherwise it makes the next truncation
// slower. It returns the size of the file. It needs flushMu.
func (l *Log) saveProducers(s *segment.Segment) (size int, err error) {
	l.mu.RLock()
	first, replaying := len(l.segments) == 0, l.life.replaying
	l.mu.RUnlock()
	l.producersMu.Lock()
	if replaying || first && !l.producers.Knows(s.Base()) {
		l.producersMu.Unlock()
		return 0, nil
	}
	b := snapshotOf(&l.producers, s)
	transactions := l.producers.Transactional()
	l.producersMu.Unlock()
	if transactions && !l.dir.opt.broken.has(unsyncedSnapshots) {
		return len(b), statefile.Write(l.dir.opt.FS, s.ProducersPath(), producersKind, producersVersion, b)
	}
	_ = statefile.WriteCache(l.dir.opt.FS, s.ProducersPath(), producersKind, producersVersion, b)
	return len(b), nil
}

// snapshotOf encodes a producer state for the file of a segment: its base, u64, and the state.
func snapshotOf(known *producers.State, s *segment.Segment) []byte {
	return known.Append(binary.LittleEndian.AppendUint64(nil, uint64(s.Base())), s.Base())
}

// keepProducers makes sure that the segment after the first n has a snapshot, before these may go:
// no other file would say which transactions were open there. Only a log with transactions needs
// that. The caller holds flushMu.
func (l *Log) keepProducers(n int) error {
	l.mu.RLock()
	segments := l.segments
	l.mu.RUnlock()
	l.producersMu.Lock()
	transactions := l.producers.Transactional()
	l.producersMu.Unlock()
	if n == 0 || len(segments) == n || !transactions || l.dir.opt.broken.has(skipKeptSnapshot) {
		return nil
	}
	gone, first := segments[:n], segments[n]
	if _, err := l.loadProducers(first); err == nil {
		return nil
	}
	known, from, err := l.recall(gone)
	if err == nil {
		err = l.replayHeaders(&known, gone[from:])
	}
	if shortage(err) {
		return fmt.Errorf("build the producer snapshot %s: %w", first.ProducersPath(), err)
	} else if err != nil { // damaged records must be removable
		l.dir.logOnce(l, "records go of which the disk does not return all, a truncation may miss a transaction that was open in them", err)
		return nil
	}
	return statefile.Write(l.dir.opt.FS, first.ProducersPath(), producersKind, producersVersion, snapshotOf(&known, first))
}

// replayHeaders adds the batches of some segments to a state.
func (l *Log) replayHeaders(known *producers.State, segments []*segment.Segment) error {
	known.Expiry = math.MaxInt64 // batches may have any timestamps
	for _, s := range segments {
		var fault error
		err := s.Headers(0, func(b record.Batch) bool {
			if b, fault = withRecords(s, b); fault == nil {
				known.Add(b, producers.Came(b, l.dir.now())) // expired producers must not come back
			}
			return fault == nil
		})
		if err := cmp.Or(err, fault); err != nil {
			return err
		}
	}
	return nil
}

// loadProducers reads the state that saveProducers wrote for a segment.
func (l *Log) loadProducers(s *segment.Segment) (known producers.State, err error) {
	b, err := statefile.Read(l.dir.opt.FS, s.ProducersPath(), producersKind, producersVersion)
	if err != nil {
		return known, err
	}
	if len(b) < 8 || int64(binary.LittleEndian.Uint64(b)) != s.Base() {
		return known, fmt.Errorf("%w: %s belongs to another segment", statefile.ErrCorrupt, s.ProducersPath())
	}
	known = l.noProducers()
	if _, err = known.Decode(b[8:]); err != nil {
		return known, fmt.Errorf("%w: %s: %w", statefile.ErrCorrupt, s.ProducersPath(), err)
	}
	return known, nil
}

// recall returns the newest producer state that can be read for one of the segments, as of that
// segment's base offset, and the segment's index. If all are missing or damaged, it returns an
// empty state and index 0. The error is that none was read, and the disk may still have one: what
// is built without it may lack a transaction for good, unless the segments are all that the log
// ever had.
func (l *Log) recall(segments []*segment.Segment) (known producers.State, index int, err error) {
	for i := len(segments) - 1; i >= 0; i-- {
		state, fault := l.loadProducers(segments[i])
		switch {
		case fault == nil:
			return state, i, nil
		case errors.Is(fault, fs.ErrNotExist), errors.Is(fault, statefile.ErrCorrupt), errors.Is(fault, statefile.ErrNewer):
		case err == nil:
			err = fault
		}
	}
	if len(segments) > 0 && segments[0].Base() == 0 && !shortage(err) {
		err = nil
	}
	return l.noProducers(), 0, err
}

// withRecords returns a batch of a segment as producers.State needs it: a marker with its record,
// of other batches the header.
func withRecords(s *segment.Segment, header record.Batch) (record.Batch, error) {
	if !header.Control() || header.Records() == 0 {
		return header, nil
	}
	return s.Read(header.BaseOffset(), header.LastOffset()+1, 1, true)
}
