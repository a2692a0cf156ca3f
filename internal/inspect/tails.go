package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// tail is what a log's segments hold behind the recovery point. No byte reaches a
// segment before the journal's datasync that covers it, so that all of it was
// acknowledged; a start cuts it off, because the journal has it too.
// Where the journal doesn't, it is what is left.
type tail struct {
	end       int64
	segments  []checkpoint.Extent // the whole list with it
	files     []string            // that hold it, to be synced before anything speaks of it
	epochs    epochs.Cache
	producers []byte
}

// findTail reads it: whole batches that follow one another, of epochs that don't go
// back, so that nothing of a history that was cut off is taken for it.
func (l *log) findTail() error {
	l.behind = nil
	if !l.journalled() || l.st.Swapping {
		return nil
	}
	files, err := l.sizes()
	if err != nil || files == nil {
		return err
	}
	t := tail{end: l.st.Offset, segments: append([]checkpoint.Extent(nil), l.st.Segments...)}
	var known producers.State
	_, _ = known.Decode(l.st.Producers) // a damaged one is forgotten
	t.epochs = l.st.Epochs.Below(math.MaxInt64)
	now, latest := time.Now(), t.epochs.Latest()
	read := func(base, from int64) (int64, error) {
		end, pos, err := segment.Prefix(l.dir.fs, l.path, base, from, t.end, files[base], func(b record.Batch) error {
			if b.LeaderEpoch() < latest || b.BaseOffset() != t.end {
				return errFound // of another history
			}
			latest, t.end = b.LeaderEpoch(), b.LastOffset()+1
			known.Add(b, now)
			t.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
			return l.dir.ctx.Err()
		})
		if err == nil && end > l.st.Offset {
			t.files = append(t.files, l.segmentPath(base))
		}
		return pos, err
	}
	if n := len(t.segments); n > 0 && t.segments[n-1].Size > 0 {
		last := &t.segments[n-1]
		if files[last.Base] < last.Size {
			return nil // what is there can't be told to follow
		}
		pos, err := read(last.Base, last.Size)
		if err != nil {
			return l.unread(l.segmentPath(last.Base), err)
		}
		last.Size = pos
	}
	for size, ok := files[t.end]; ok && size > 0; size, ok = files[t.end] {
		base := t.end
		pos, err := read(base, 0)
		if err != nil {
			return l.unread(l.segmentPath(base), err)
		}
		if t.end == base {
			break
		}
		t.segments = append(t.segments, checkpoint.Extent{Base: base, Size: pos})
	}
	if t.end > l.st.Offset {
		t.producers = known.Append(nil, t.end)
		l.behind = &t
	}
	return nil
}

// unread: nothing is taken of what is of another history. What cannot be read may be
// the only copy of records: a new journal has to wait for it, since the start after
// that cuts it off.
func (l *log) unread(name string, err error) error {
	if errors.Is(err, errFound) {
		return nil
	}
	if access(err) || l.dir.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", l.st, err)
	}
	l.dir.find(Unreadable, l, name, -1, "%v; records that were in the journal may be in it", err).Effect = Refuses
	return nil
}

// sizes lists the segments that are there; nil where the directory is not.
func (l *log) sizes() (map[int64]int64, error) {
	infos, err := l.dir.fs.List(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, l.unread(l.path, err)
	}
	files := map[int64]int64{}
	for _, in := range infos {
		if base, ok := segment.ParseName(in.Name); ok && !in.Dir {
			files[base] = in.Size
		}
	}
	return files, nil
}

// begin begins to follow frames behind what segments hold.
func (l *log) begin() {
	l.follow, l.end = storage.Follow(l.st), l.st.Offset
	if l.behind != nil {
		l.follow.Skip(l.behind.end)
		l.end = l.behind.end
	}
}

// sync makes what a tail is made of durable.
func (m *apply) sync(l *log) error {
	for _, name := range l.behind.files {
		f, err := m.fs.Open(name)
		if err != nil {
			return err
		}
		if err := cmp.Or(f.Datasync(), f.Close(), m.fs.SyncDir(path.Dir(name))); err != nil {
			return err
		}
	}
	return nil
}
