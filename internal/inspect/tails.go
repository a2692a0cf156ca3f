package inspect

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
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
	parts     []part              // of files, that hold it
	epochs    epochs.Cache
	producers []byte
}

// part is a part of a file that holds a tail. A repair makes a segment of it.
type part struct {
	base, pos, size int64 // of the segment that has it
	first, end      int64 // offsets; the new segment has the base first
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
	t := tail{end: l.st.Offset, segments: append([]checkpoint.Extent(nil), l.st.Segments...)}
	var known producers.State
	_, _ = known.Decode(l.st.Producers) // a damaged state counts as empty
	t.epochs = l.st.Epochs.Below(math.MaxInt64)
	now, latest := time.Now(), t.epochs.Latest()
	read := func(base, from int64) error {
		pos, first := from, t.end
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
			t.parts = append(t.parts, part{base: base, pos: from, size: pos - from, first: first, end: t.end})
			t.segments = append(t.segments, checkpoint.Extent{Base: first, Size: pos - from, Aborted: unknown})
		}
		return err
	}
	if n := len(t.segments); n > 0 && t.segments[n-1].Size > 0 {
		last := t.segments[n-1]
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

// renew makes a synced segment of each part of the tail. A sync of the file that has it would prove
// nothing: one may have failed before, for the broker or for a repair, after which the kernel
// counts the lost pages as written.
func (m *apply) renew(l *log) error {
	for _, p := range l.tailBeyond.parts {
		if err := m.renewPart(l, p); err != nil {
			return fmt.Errorf("%w; %s may have the only copy of records, which may exist in memory only: copy it to another disk "+
				"before anything else, and repair the log there", err, l.segmentPath(p.base))
		}
	}
	return m.fs.SyncDir(l.path)
}

// renewPart copies a part of a tail to a segment. A start, and the next repair, remove what it
// leaves after an error. The caller must sync the directory.
func (m *apply) renewPart(l *log, p part) error {
	from, to := l.segmentPath(p.base), l.segmentPath(p.first)
	in, err := m.fs.Stat(from)
	if err != nil {
		return err
	}
	fresh := to + segment.CleanedSuffix
	if err := m.fs.RemoveAll(fresh); err != nil {
		return err
	}
	f, err := m.fs.Create(fresh)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), copyStep)
	end, _, err := segment.Prefix(m.fs, l.path, p.base, p.pos, p.first, p.pos+p.size, func(b record.Batch) error {
		_, err := w.Write(b)
		return cmp.Or(err, l.dir.ctx.Err())
	})
	if err == nil && end != p.end {
		err = fmt.Errorf("%s: records before offset %d could be read, and now only those before %d", from, p.end, end)
	}
	if err = cmp.Or(err, w.Flush()); err == nil {
		err = f.Datasync()
	}
	if err := cmp.Or(err, f.Close()); err != nil {
		return err
	}
	for _, name := range l.segmentFiles(p.first) { // indexes of what it replaces
		if name != to && !strings.HasSuffix(name, segment.ProducersSuffix) {
			if err := m.fs.Remove(name); err != nil {
				return err
			}
		}
	}
	_ = m.fs.SetModified(fresh, in.Modified) // only retention uses it, if timestamps cannot be trusted
	return m.fs.Rename(fresh, to)
}
