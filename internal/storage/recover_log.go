package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
)

// prepare opens the segments of a log. It trusts their bytes up to the recovery point and cuts
// those that follow, which the journal holds.
func (r *recovery) prepare(f *found) error {
	l := f.l
	infos, err := r.d.opt.FS.List(l.path)
	if errors.Is(err, fs.ErrNotExist) { // after a crash in the last step of its move, it has the name of a copy
		is, unknown := r.d.isFuture(l.id)
		if is {
			unknown = r.d.nameFuture(l)
		}
		if err = cmp.Or(unknown, err); is && unknown == nil {
			infos, err = r.d.opt.FS.List(l.path)
		}
	}
	if err != nil {
		return fmt.Errorf("log directory of the partition: %w", err)
	}
	compacted, waits := int64(0), false // the segment that the swap puts in place
	for _, in := range infos {
		if in.Name == MoveFile {
			if from, _, err := r.d.readMove(path.Base(l.path)); err != nil {
				r.d.logOnce(l, "where a log was moved from is not known", err)
			} else {
				l.movedFrom.Store(&from)
			}
		}
		if base, ok := segment.ParseName(in.Name); ok {
			f.files[base] = in.Size
		}
		if base, ok := segment.ParseAborted(in.Name); ok {
			f.aborted[base] = in.Size
		}
		if base, ok := segment.ParseSwap(in.Name); ok && f.lc.Swapping && base == f.lc.Swap {
			compacted, waits = in.Size, true
		} else if segment.IsDeleted(in.Name) || segment.IsUnfinished(in.Name) {
			r.later(nil, func() error { return r.d.opt.FS.Remove(path.Join(l.path, in.Name)) })
		}
	}
	if f.lc.Swapping {
		if err := r.finishSwap(f, compacted, waits); err != nil {
			return err
		}
	}
	if err := r.openListed(f); err != nil {
		return err
	}
	r.removeBeyond(f, f.lc.Offset)
	return nil
}

// finishSwap completes a swap that a crash interrupted. The checkpoint that names it is durable,
// and the next one will not name it. A crash in here leaves the same work for the next start.
func (r *recovery) finishSwap(f *found, size int64, found bool) error {
	need, wanted := int64(0), false
	for _, e := range f.lc.Segments {
		if e.Base == f.lc.Swap {
			need, wanted = e.Size, true
		}
	}
	name := path.Join(f.l.path, segment.Name(f.lc.Swap)+segment.LogSuffix+segment.SwapSuffix)
	switch {
	case found && !wanted:
		r.later(nil, func() error { return r.d.opt.FS.Remove(name) })
		found = false
	case found && size < need:
		return fmt.Errorf("segment %s has %d bytes, %d are needed", name, size, need)
	}
	if found {
		f.files[f.lc.Swap] = size
	}
	return FinishSwap(r.d.files, r.d.opt.FS, f.l.path, f.lc, found, f.files)
}

// FinishSwap completes the swap that a checkpoint names: it renames the compacted segment, if waits
// is set, and removes the segments that it replaces from the directory and from files.
func FinishSwap(segments *segment.Files, fsys vfs.FS, dir string, l *checkpoint.Log, waits bool, files map[int64]int64) error {
	if err := segment.FinishSwap(segments, dir, l.Swap, waits); err != nil {
		return err
	}
	for base := range files {
		listed := slices.ContainsFunc(l.Segments, func(e checkpoint.Extent) bool { return e.Base == base })
		if listed || base >= l.Offset {
			continue
		}
		if err := segment.Open(segments, dir, base, 0).Remove(); err != nil {
			return err
		}
		delete(files, base)
	}
	return fsys.SyncDir(dir)
}

// Needs reports whether segment i of a log's list holds records that the log needs, and the offset
// at which it ends. there reports whether its file exists, size is the size of that file. The error
// is the fault of the file.
func Needs(l *checkpoint.Log, i int, size int64, there bool, dir string) (next int64, needed bool, err error) {
	e, last := l.Segments[i], i+1 == len(l.Segments)
	if next = l.Offset; !last {
		next = l.Segments[i+1].Base
	}
	name := path.Join(dir, segment.Name(e.Base)+segment.LogSuffix)
	switch {
	case e.Size == 0:
		return next, false, nil // none of its bytes count; the file may never have been created
	case next <= l.Start && (!there || !last):
		return next, false, nil // below the log start, so retention may have removed it; the last segment may still be appended to
	case !there:
		return next, true, fmt.Errorf("segment %s is missing", name)
	case size < e.Size:
		return next, true, fmt.Errorf("segment %s has %d bytes, %d are needed", name, size, e.Size)
	}
	return next, true, nil
}

// openListed opens the segments that the checkpoint lists.
func (r *recovery) openListed(f *found) error {
	l, list := f.l, f.lc.Segments
	for i, e := range list {
		size, there := f.files[e.Base]
		next, needed, err := Needs(f.lc, i, size, there, l.path)
		if err != nil {
			return err
		}
		if !needed {
			continue
		}
		s := segment.Open(r.d.files, l.path, e.Base, e.Size)
		if size > e.Size {
			r.d.stats.truncated.Add(float64(size - e.Size))
			if err := s.Truncate(e.Size, next); err != nil {
				return err
			}
		}
		s.Expect(e.Aborted)
		if r.d.opt.broken.has(uncountedIndex) {
			s.Expect(markFound(r.d.opt.FS, s))
		}
		if err := s.TrimAborted(f.aborted[e.Base]); err != nil {
			return err
		}
		if s.HasAborted() {
			l.unstable.aborted.Store(next - 1)
		}
		l.establish(s, next)
		l.recallFlaws(s, f.lc, e.Size, next)
		l.mu.Lock()
		l.segments = append(l.segments, s)
		l.mu.Unlock()
		delete(f.files, e.Base)
	}
	return nil
}

// removeBeyond removes unlisted segments: those at or beyond the recovery point, whose records the
// journal holds, and those below the log start.
func (r *recovery) removeBeyond(f *found, end int64) {
	for _, base := range slices.Sorted(maps.Keys(f.files)) {
		if base >= end || base < f.lc.Start {
			s := segment.Open(r.d.files, f.l.path, base, 0)
			r.later(f.l, func() error {
				if f.l.ownsSegment(base) {
					return nil // created again in the meantime
				}
				if err := s.Remove(); err != nil {
					return err
				}
				// Syncing the directory keeps the name from reappearing after a crash, when it
				// would be taken for the log's.
				return r.d.opt.FS.SyncDir(f.l.path)
			})
		}
	}
}

func (l *Log) ownsSegment(base int64) bool {
	return slices.ContainsFunc(l.segments, func(s *segment.Segment) bool { return s.Base() == base })
}
