package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// tail is the part of a log's segments beyond the recovery point. Bytes reach a segment only after
// the journal's datasync that covers them, so all of it was acknowledged. Recovery cuts it off,
// because the journal holds the same records. If the journal is lost, the tail is the only copy.
type tail struct {
	end       int64
	segments  []checkpoint.Extent // the log's segments, including the tail
	files     map[int64]int64     // the bytes that are used of those that hold the tail, by base
	epochs    epochs.Cache
	producers []byte
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
	t := tail{end: l.st.Offset, segments: append([]checkpoint.Extent(nil), l.st.Segments...), files: make(map[int64]int64)}
	var known producers.State
	_, _ = known.Decode(l.st.Producers) // a damaged state counts as empty
	t.epochs = l.st.Epochs.Below(math.MaxInt64)
	now, latest := time.Now(), t.epochs.Latest()
	read := func(base, from int64) (int64, error) {
		pos := from
		_, _, err := segment.Prefix(l.dir.fs, l.path, base, from, t.end, files[base], func(b record.Batch) error {
			if b.LeaderEpoch() < latest || b.BaseOffset() != t.end {
				return errFound // of another history
			}
			latest, t.end = b.LeaderEpoch(), b.LastOffset()+1
			known.Add(b, now)
			t.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
			pos += int64(len(b))
			return l.dir.ctx.Err()
		})
		if pos > from {
			t.files[base] = pos
		}
		return pos, err
	}
	if n := len(t.segments); n > 0 && t.segments[n-1].Size > 0 {
		last := &t.segments[n-1]
		if files[last.Base] < last.Size {
			return nil // it is unknown whether the rest follows
		}
		var pos int64
		if pos, err = read(last.Base, last.Size); err != nil && !errors.Is(err, errFound) {
			return l.unreadableTail(l.segmentPath(last.Base), err)
		}
		last.Size, last.Aborted = pos, unknown
	}
	for err == nil && files[t.end] > 0 {
		base := t.end
		var pos int64
		if pos, err = read(base, 0); err != nil && !errors.Is(err, errFound) {
			return l.unreadableTail(l.segmentPath(base), err)
		}
		if t.end == base {
			break
		}
		t.segments = append(t.segments, checkpoint.Extent{Base: base, Size: pos, Aborted: unknown})
	}
	if t.end > l.st.Offset {
		t.producers = known.Append(nil, t.end)
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

// renew puts a synced copy in the place of each file that holds the tail, and reads the tail again.
// A sync of the file itself would prove nothing: one may have failed before, for the broker or for
// a repair, after which the kernel counts the lost pages as written.
func (m *apply) renew(l *log) error {
	end := l.tailBeyond.end
	for base, size := range l.tailBeyond.files {
		name := l.segmentPath(base)
		if err := m.renewFile(name, size); err != nil {
			return fmt.Errorf("%w; %s may have the only copy of records, which may exist in memory only: copy it to another disk "+
				"before anything else, and repair the log there", err, name)
		}
	}
	if err := l.findTail(); err != nil {
		return err
	}
	if l.tailBeyond == nil || l.tailBeyond.end != end {
		return fmt.Errorf("%s: the records before offset %d could be read, and cannot be read now; repair it again", l.path, end)
	}
	return m.fs.SyncDir(l.path)
}

// renewFile replaces a segment by a synced copy of its first bytes. A start, and the next repair,
// remove what it leaves after an error. The caller must sync the directory.
func (m *apply) renewFile(name string, size int64) error {
	old, err := m.fs.Open(name)
	if err != nil {
		return err
	}
	defer old.Close() //nolint:errcheck // it was only read
	in, err := m.fs.Stat(name)
	if err != nil {
		return err
	}
	fresh := name + segment.CleanedSuffix
	if err := m.fs.RemoveAll(fresh); err != nil {
		return err
	}
	f, err := m.fs.Create(fresh)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(io.NewOffsetWriter(f, 0), io.NewSectionReader(old, 0, size), make([]byte, copyStep))
	if err := cmp.Or(err, f.Datasync(), f.Close()); err != nil {
		return err
	}
	_ = m.fs.SetModified(fresh, in.Modified) // only retention uses it, if timestamps cannot be trusted
	return m.fs.Rename(fresh, name)
}
