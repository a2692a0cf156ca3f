package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// tail is the part of a log's segments beyond the recovery point. Bytes reach a segment only after
// the journal's datasync that covers them, so all of it was acknowledged. Recovery cuts it off,
// because the journal holds the same records. If the journal is lost, the tail is the only copy.
type tail struct {
	end       int64
	stretches []stretch
}

// stretch is a part of a tail: the bytes [from, to) of a segment, with the offsets [first, end).
type stretch struct {
	base, from, to, first, end int64
}

// unknown marks a segment whose index of aborted transactions the broker must build.
var unknown = txnindex.Mark{Count: txnindex.Unknown} //nolint:gochecknoglobals // a constant

// findTail finds the tail: contiguous whole batches with leader epochs that never decrease. Batches
// of an earlier history, which was truncated, end it.
func (l *log) findTail() error {
	l.tailBeyond = nil
	if !l.journalled() || l.st.Swapping {
		return nil
	}
	files, err := l.sizes()
	if err != nil || files == nil {
		return err
	}
	t := tail{end: l.st.Offset}
	known := l.st.Epochs.Below(math.MaxInt64)
	latest := known.Latest()
	read := func(base, from int64) error {
		x := stretch{base, from, from, t.end, t.end}
		_, _, err := segment.Prefix(l.dir.fs, l.path, base, from, t.end, files[base], func(b record.Batch) error {
			if b.LeaderEpoch() < latest || b.BaseOffset() != t.end {
				return errFound // of another history
			}
			latest, t.end = b.LeaderEpoch(), b.LastOffset()+1
			x.to, x.end = x.to+int64(len(b)), t.end
			return l.dir.ctx.Err()
		})
		if x.end > x.first {
			t.stretches = append(t.stretches, x)
		}
		return err
	}
	if n := len(l.st.Segments); n > 0 && l.st.Segments[n-1].Size > 0 {
		last := l.st.Segments[n-1]
		if files[last.Base] < last.Size {
			return nil // it is unknown whether the rest follows
		}
		if err = read(last.Base, last.Size); err != nil && !errors.Is(err, errFound) {
			return l.unreadableTail(l.segmentPath(last.Base), err)
		}
	}
	for err == nil && files[t.end] > 0 {
		base := t.end
		if err = read(base, 0); err != nil && !errors.Is(err, errFound) {
			return l.unreadableTail(l.segmentPath(base), err)
		}
		if t.end == base {
			break
		}
	}
	if t.end > l.st.Offset {
		l.tailBeyond = &t
	}
	return nil
}

// unreadableTail handles an error of reading a tail. The tail may be the only copy of records: it
// blocks the new journal, because the next start would cut the tail off.
func (l *log) unreadableTail(name string, err error) error {
	if access(err) || l.dir.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", l.st, err)
	}
	l.dir.find(Unreadable, l, name, -1, "%v; it may hold records that are lost from the journal", err).Effect = Refuses
	return nil
}

// sizes returns the sizes of the log's segments by base, nil if the directory is missing.
func (l *log) sizes() (map[int64]int64, error) {
	infos, err := l.dir.fs.List(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, l.unreadableTail(l.path, err)
	}
	files := map[int64]int64{}
	for _, in := range infos {
		if base, ok := segment.ParseName(in.Name); ok && !in.Dir {
			files[base] = in.Size
		}
	}
	return files, nil
}

// begin resets the follower to the end of the segments, including the tail.
func (l *log) begin() {
	l.follow, l.end = storage.Follow(l.st), l.st.Offset
	if l.tailBeyond != nil {
		l.follow.Skip(l.tailBeyond.end)
		l.end = l.tailBeyond.end
	}
	l.weave, l.held = weave{end: l.end, epoch: -1}, map[string]bool{}
}

// eachOfTail passes the tail to emit, as frames that a repair writes to a quarantine file. The
// segments may lose it: if a sync of the killed broker failed, the system may count bytes as
// written that exist only in its cache, and a sync of them succeeds without writing them. To write
// them again where they are would risk them, because power may be lost during that.
func (l *log) eachOfTail(fsys vfs.FS, emit func(*log, *journal.Frame) error) error {
	for _, x := range l.tailBeyond.stretches {
		f := journal.Frame{Stream: l.st.ID, Type: journal.Batches, LSN: l.dir.state.Redo.LSN, PrevEnd: x.first, NextEnd: x.first}
		flush := func() error {
			if f.NextEnd == f.PrevEnd {
				return nil
			}
			err := emit(l, &f)
			f.PrevEnd, f.Payload = f.NextEnd, f.Payload[:0]
			return err
		}
		end, _, err := segment.Prefix(fsys, l.path, x.base, x.from, x.first, x.to, func(b record.Batch) error {
			f.Payload, f.NextEnd = append(f.Payload, b...), b.LastOffset()+1
			if len(f.Payload) < copyStep {
				return nil
			}
			return cmp.Or(flush(), l.dir.ctx.Err())
		})
		if err == nil {
			err = flush()
		}
		if err != nil {
			return err
		}
		if end != x.end {
			return fmt.Errorf("%s has changed since it was checked", l.segmentPath(x.base))
		}
	}
	return nil
}
