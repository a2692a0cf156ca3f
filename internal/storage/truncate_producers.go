package storage

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/statefile"
)

// Each segment has the producer state as of its base offset in a file of its own, so that
// a truncation reads the headers of one segment and not of the whole log. The file is a
// state file of kind "producers": base offset i64, little endian, then the state as
// producers.State.Append encodes it.
//
// It is a cache. It is not synced, its checksum is compared when it is read, and where it
// is missing or damaged the one of an older segment and the headers from there on say the
// same. It is never that of another history, in which other batches stood below the
// offset: creating a segment removes what lies under its names and writes the file
// before the directory is synced, and only then is the segment used. Whatever a crash
// leaves of a file that was removed before, or of one that was not written to its end,
// belongs to a segment that no checkpoint lists, which the start removes or makes anew
// together with this file; or it was covered by that sync, and what is read of it is
// nothing, or a part of the new content.
const (
	producersKind    = "producers"
	producersVersion = 1
)

// noProducers returns an empty producer state with the log's bounds.
func (l *Log) noProducers() producers.State {
	return producers.State{Expiry: l.dir.opt.ProducerExpiry, Limit: l.dir.opt.ProducersPerLog}
}

// saveProducers puts the producer state beside a segment that was begun. The first
// segment of a log without producers needs none. An error costs the next truncation
// time, and nothing else. It needs flushMu.
func (l *Log) saveProducers(s *segment.Segment) {
	l.mu.RLock()
	first := len(l.segments) == 0
	l.mu.RUnlock()
	l.smu.Lock()
	if first && !l.producers.Knows(s.Base()) {
		l.smu.Unlock()
		return
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.Base()))
	b = l.producers.Append(b, s.Base())
	l.smu.Unlock()
	_ = statefile.WriteCache(l.dir.opt.FS, s.ProducersPath(), producersKind, producersVersion, b)
}

// loadProducers reads the state that saveProducers put beside a segment.
func (l *Log) loadProducers(s *segment.Segment) (known producers.State, err error) {
	b, err := statefile.Read(l.dir.opt.FS, s.ProducersPath(), producersKind, producersVersion)
	if err != nil {
		return known, err
	}
	if len(b) < 8 || int64(binary.LittleEndian.Uint64(b)) != s.Base() {
		return known, fmt.Errorf("%w: %s is not of its segment", statefile.ErrCorrupt, s.ProducersPath())
	}
	known = l.noProducers()
	_, err = known.Decode(b[8:])
	return known, err
}

// recall returns the producer state as of the base offset of a segment, the last of those
// given whose state can be read, and its index. Where there is none the state of the
// first one is empty.
func (l *Log) recall(segments []*segment.Segment) (producers.State, int) {
	for i := len(segments) - 1; i >= 0; i-- {
		if known, err := l.loadProducers(segments[i]); err == nil {
			return known, i
		}
	}
	return l.noProducers(), 0
}

// seenAt is when the producer of a batch that was read from a segment was seen: at the
// batch's time, so that producers that have expired do not come back. now is for
// batches without a time and for those from the future.
func seenAt(b record.Batch, now time.Time) time.Time {
	if ts := b.MaxTimestamp(); ts >= 0 && ts < now.UnixMilli() {
		return time.UnixMilli(ts)
	}
	return now
}
