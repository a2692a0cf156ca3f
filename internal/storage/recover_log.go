package storage

import (
	"fmt"
	"path"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// prepare opens the segments of a log: up to the recovery point they are
// trusted, if they are there; what follows is cut, or scanned where the log was
// written through.
func (r *recovery) prepare(f *found) error {
	l := f.l
	infos, err := r.d.opt.FS.List(l.path)
	if err != nil {
		return fmt.Errorf("log directory of the partition: %w", err)
	}
	swaps := map[int64]int64{} // base → size
	for _, in := range infos {
		if base, ok := segment.ParseName(in.Name); ok {
			f.files[base] = in.Size
		}
		if base, ok := segment.ParseSwap(in.Name); ok && f.lc.swapping && base == f.lc.swap {
			swaps[base] = in.Size
		} else if segment.IsDeleted(in.Name) || segment.IsUnfinished(in.Name) {
			r.later(nil, func() error { return r.d.opt.FS.Remove(path.Join(l.path, in.Name)) })
		}
	}
	if f.lc.swapping {
		if err := r.finishSwap(f, swaps); err != nil {
			return err
		}
	}
	if err := r.openListed(f); err != nil {
		return err
	}
	if l.mode == writeThrough && !f.lc.cut && !r.d.clean {
		return r.scan(f)
	}
	if f.lc.cut {
		// The checkpoint that says so is durable. The next one will not: what is
		// to be cut must be gone before.
		return r.removeNow(f)
	}
	r.removeBeyond(f, f.lc.rp.offset)
	return nil
}

// finishSwap brings a swap to its end that a crash came into: the checkpoint that
// speaks of it is durable, and the next one will not. A crash in here finds the same
// again.
func (r *recovery) finishSwap(f *found, swaps map[int64]int64) error {
	listed := map[int64]int64{}
	for _, e := range f.lc.rp.segments {
		listed[e.base] = e.size
	}
	need, wanted := listed[f.lc.swap]
	size, found := swaps[f.lc.swap]
	name := path.Join(f.l.path, segment.Name(f.lc.swap)+segment.LogSuffix+segment.SwapSuffix)
	switch {
	case found && !wanted:
		r.later(nil, func() error { return r.d.opt.FS.Remove(name) })
		found = false
	case found && size < need:
		return fmt.Errorf("segment %s has %d bytes, %d are needed", name, size, need)
	}
	if err := segment.FinishSwap(r.d.files, f.l.path, f.lc.swap, found); err != nil {
		return err
	}
	if found {
		f.files[f.lc.swap] = size
	}
	for base := range f.files {
		if _, ok := listed[base]; ok || base >= f.lc.rp.offset {
			continue
		}
		if err := segment.Open(r.d.files, f.l.path, base, 0).Remove(); err != nil {
			return err
		}
		delete(f.files, base)
	}
	return r.d.opt.FS.SyncDir(f.l.path)
}

// removeNow removes the segments that a truncation which was under way did not
// come to.
func (r *recovery) removeNow(f *found) error {
	for base := range f.files {
		if err := segment.Open(r.d.files, f.l.path, base, 0).Remove(); err != nil {
			return err
		}
	}
	return r.d.opt.FS.SyncDir(f.l.path)
}

// needs says of a listed segment whether it counts, up to which offset, and what is
// wrong with a file of a size that is there or not.
func (l *logCheckpoint) needs(i int, size int64, there bool, dir string) (next int64, needed bool, err error) {
	e, last := l.rp.segments[i], i+1 == len(l.rp.segments)
	if next = l.rp.offset; !last {
		next = l.rp.segments[i+1].base
	}
	name := path.Join(dir, segment.Name(e.base)+segment.LogSuffix)
	switch {
	case e.size == 0:
		return next, false, nil // nothing of it counts; it may never have come to be
	case next <= l.logStart && (!there || !last):
		return next, false, nil // below the log's start, and removed or about to be; the last one may go on
	case !there:
		return next, true, fmt.Errorf("segment %s is missing", name)
	case size < e.size:
		return next, true, fmt.Errorf("segment %s has %d bytes, %d are needed", name, size, e.size)
	}
	return next, true, nil
}

// openListed opens the segments that the checkpoint lists.
func (r *recovery) openListed(f *found) error {
	l, list := f.l, f.lc.rp.segments
	for i, e := range list {
		size, there := f.files[e.base]
		next, needed, err := f.lc.needs(i, size, there, l.path)
		if err != nil {
			return err
		}
		if !needed {
			continue
		}
		s := segment.Open(r.d.files, l.path, e.base, e.size)
		if size > e.size && (i+1 < len(list) || l.mode == journalled || f.lc.cut) {
			r.d.stats.truncated.Add(float64(size - e.size))
			if err := s.Cut(e.size, next); err != nil {
				return err
			}
		}
		l.segments = append(l.segments, s)
		delete(f.files, e.base)
	}
	return nil
}

// removeBeyond removes segments at or beyond the recovery point: the journal
// holds what they should.
func (r *recovery) removeBeyond(f *found, end int64) {
	for base := range f.files {
		if base >= end || base < f.lc.logStart {
			s := segment.Open(r.d.files, f.l.path, base, 0)
			r.later(f.l, func() error {
				if f.l.ownsSegment(base) {
					return nil // made anew meanwhile
				}
				if err := s.Remove(); err != nil {
					return err
				}
				// A name that comes back must not be taken for the log's.
				return r.d.opt.FS.SyncDir(f.l.path)
			})
		}
	}
}

func (l *Log) ownsSegment(base int64) bool {
	for _, s := range l.segments {
		if s.Base() == base {
			return true
		}
	}
	return false
}

// scan finds the valid prefix of a log that was written through.
func (r *recovery) scan(f *found) error {
	l, next, now := f.l, f.lc.rp.offset, time.Now()
	note := func(b record.Batch) error {
		l.producers.Add(b, now)
		l.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
		return r.d.interrupted()
	}
	interval := l.cfg.Load().Segment.IndexInterval
	if n := len(l.segments); n > 0 {
		s := l.segments[n-1]
		end, err := s.Recover(s.Size(), next, interval, note)
		if err != nil {
			return err
		}
		next = end
	}
	for {
		size, ok := f.files[next]
		if !ok {
			break
		}
		s := segment.Open(r.d.files, l.path, next, 0)
		end, err := s.Recover(0, next, interval, note)
		if err != nil {
			return err
		}
		delete(f.files, next)
		r.d.stats.truncated.Add(float64(size - s.Size()))
		l.segments = append(l.segments, s)
		if end == next {
			break
		}
		next = end
	}
	// The process before may have died between making a segment and syncing its
	// name.
	if err := r.d.opt.FS.SyncDir(l.path); err != nil {
		return err
	}
	f.end = next
	l.setEnds(next)
	r.removeBeyond(f, next)
	return nil
}
