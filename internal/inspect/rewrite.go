package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
)

// rewrite rewrites the segments with flaws. It rewrites one segment of each log at a time, because
// a checkpoint names only one swap for a log.
func (m *apply) rewrite() error {
	type work struct {
		log  *log
		base int64
	}
	var rounds [][]work
	for _, l := range m.dir.logs {
		n := 0
		for _, e := range l.st.Segments {
			if len(l.flaws[e.Base]) == 0 || l.gone[e.Base] {
				continue
			}
			if size, short := l.cut[e.Base]; short && size == 0 {
				continue
			}
			if n == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[n] = append(rounds[n], work{l, e.Base})
			n++
		}
	}
	files := segment.NewFiles(m.fs, 64)
	defer files.Close() //nolint:errcheck // everything in them is synced
	for _, round := range rounds {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		for _, w := range round {
			if err := m.finish(files, w.log); err != nil { // a swap from before the repair
				return err
			}
			if err := m.rewriteSegment(files, w.log, w.base); err != nil {
				return fmt.Errorf("segment %d of %s: %w", w.base, w.log.st, err)
			}
		}
		if err := m.bench.Commit(m.state); err != nil {
			return err
		}
		for _, w := range round {
			if err := m.finish(files, w.log); err != nil {
				return err
			}
		}
		if err := m.bench.Commit(m.state); err != nil {
			return err
		}
	}
	return nil
}

// entry returns the new checkpoint's entry of a log.
func (m *apply) entry(l *log) *checkpoint.Log { return &m.state.Logs[slices.Index(m.dir.logs, l)] }

// finish completes the swap of a log, if its entry names one.
func (m *apply) finish(files *segment.Files, l *log) error {
	s := m.entry(l)
	if !s.Swapping {
		return nil
	}
	var replaced map[int64]int64
	if l.swapWaiting { // a compaction's: it replaces other segments, too
		replaced = l.files
	}
	waits, err := exists(m.fs, l.segmentPath(s.Swap)+segment.SwapSuffix)
	if err != nil {
		return err
	}
	if err := storage.FinishSwap(files, m.fs, l.path, s, waits, replaced); err != nil {
		return err
	}
	l.swapWaiting, s.Swapping, s.Swap = false, false, 0
	return nil
}

// rewriteSegment writes a copy of a segment without its flaws, and names the swap in the new
// checkpoint.
func (m *apply) rewriteSegment(files *segment.Files, l *log, base int64) error {
	s := m.entry(l)
	i := slices.IndexFunc(s.Segments, func(e checkpoint.Extent) bool { return e.Base == base })
	if i < 0 {
		return nil
	}
	fresh, err := segment.CreateCleaned(files, l.path, base)
	if err != nil {
		return err
	}
	size := s.Segments[i].Size
	if err := m.copy(l, base, size, fresh); err != nil {
		return errors.Join(err, fresh.Discard())
	}
	if err := fresh.Seal(); err != nil {
		return errors.Join(err, fresh.Discard())
	}
	if in, err := m.fs.Stat(l.segmentPath(base)); err == nil {
		_ = m.fs.SetModified(fresh.Path(), in.Modified) // only retention uses it, if timestamps cannot be trusted
	}
	if err := fresh.Ready(); err != nil {
		return errors.Join(err, fresh.Discard())
	}
	if err := m.fs.SyncDir(l.path); err != nil {
		return err
	}
	if l.made[base] { // its index may be missing, too
		s.Segments[i].Aborted = unknown
	}
	s.Segments[i].Size, s.Swapping, s.Swap = fresh.Size(), true, base
	return nil
}

// copyStep is the number of bytes that are copied at a time.
const copyStep = 1 << 20

// copy copies the ranges between the flaws and the changed ranges, and writes what is restored.
func (m *apply) copy(l *log, base, size int64, to *segment.Segment) error {
	var f vfs.File
	if _, there := l.files[base]; there {
		var err error
		if f, err = m.fs.Open(l.segmentPath(base)); err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it was only read
	}
	put := func(from, end int64, change func([]byte)) error {
		for from < end {
			n := end - from
			if change == nil {
				n = min(n, copyStep)
			}
			b := make([]byte, n)
			if _, err := f.ReadAt(b, from); err != nil {
				return err
			}
			if change != nil {
				change(b)
			}
			if err := to.Append([][]byte{b}, math.MaxInt); err != nil {
				return err
			}
			from += n
		}
		return nil
	}
	flaws := slices.Clone(l.flaws[base])
	sorts.Sort(flaws, func(a, b segment.Flaw) int { return cmp.Compare(a.Pos, b.Pos) })
	at := int64(0)
	for _, x := range flaws {
		if x.Pos < at || x.Pos >= size {
			continue
		}
		if err := put(at, x.Pos, nil); err != nil {
			return err
		}
		if x.Mends() {
			if err := put(x.Pos, x.Pos+x.Size, func(b []byte) { x.Mend(b) }); err != nil {
				return err
			}
		} else if err := l.putLost(to, base, x.From, x.To); err != nil {
			return err
		}
		at = x.Pos + x.Size
	}
	return put(at, size, nil)
}

// putLost appends the restored batches in [from, end), and the abort markers that replace others,
// in the order of their offsets.
func (l *log) putLost(to *segment.Segment, base, from, end int64) error {
	batches := map[int64]func() (record.Batch, error){}
	for _, p := range l.restored[base] {
		batches[p.first] = func() (record.Batch, error) { return l.dir.opt.Restore.read(p) }
	}
	for _, a := range l.aborts {
		batches[a.at] = func() (record.Batch, error) { return a.batch(l.st.Epochs.At(a.at)), nil }
	}
	for _, at := range slices.Sorted(maps.Keys(batches)) {
		if at < from || at >= end {
			continue
		}
		b, err := batches[at]()
		if err != nil {
			return err
		}
		if to.Size()+int64(len(b)) > math.MaxInt32 { // of a segment that a compaction has merged, another replica may have more
			return fmt.Errorf("what is restored exceeds the size of a segment at offset %d; repair without it", at)
		}
		if err := to.Append([][]byte{b}, math.MaxInt); err != nil {
			return err
		}
	}
	return nil
}
