package storage

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// verify reads the journal once and changes nothing. The journal must be complete, and its frames
// must continue their logs.
func (r *recovery) verify() error {
	d := r.d
	d.log.Info("the last stop was not clean, reading the journal", zap.Uint64("file", r.ckpt.Redo.File),
		zap.Uint64("lsn", uint64(r.ckpt.Redo.LSN)))
	ext, err := d.journal.Scan(r.ckpt.Redo, func(f journal.Frame) error {
		if err := d.interrupted(); err != nil {
			return err
		}
		d.stats.frames.Inc()
		r.frames++
		r.progress("frames of the journal read", r.frames, r.frames)
		d.stats.bytes.Add(float64(len(f.Payload)))
		e := r.found[f.Stream]
		r.others = r.others || e == nil
		if e != nil && e.err == nil && e.Counts(&f) {
			e.err = e.Take(&f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if ext.Next <= r.ckpt.Durable {
		return fmt.Errorf("%w: journal %s ends at LSN %d, but the checkpoint has LSN %d as durable: "+
			"an older copy of the journal was restored, or files are missing",
			journal.ErrDamaged, d.jpath, ext.Next-1, r.ckpt.Durable)
	}
	r.extent, r.above = ext, max(r.above, ext.Above)
	return nil
}

// readQuarantine calls fn for the frames of a quarantine file that lie beyond f.end.
func (f *found) readQuarantine(name string, fn func(*journal.Frame) error) error {
	return journal.ReadQuarantine(f.l.dir.opt.FS, path.Join(f.l.dir.path, name), func(fr journal.Frame) error {
		if fr.NextEnd <= f.end {
			return nil // carried frames, or an unfinished repair that reached this point
		}
		if err := f.Take(&fr); err != nil {
			return fmt.Errorf("%w: %s: %w", journal.ErrDamaged, name, err)
		}
		return fn(&fr)
	})
}

// replayQuarantined replays the frames of the quarantine file that the checkpoint names.
func (f *found) replayQuarantined(write func() error) error {
	return f.readQuarantine(f.lc.QuarantineFile, func(fr *journal.Frame) error { return f.l.replay(fr, write) })
}

// Follower checks that the frames of a log are contiguous, as recovery does.
type Follower struct {
	lc  *checkpoint.Log
	end int64
}

// Follow returns a Follower that begins at a log's recovery point.
func Follow(l *checkpoint.Log) *Follower { return &Follower{lc: l, end: l.Offset} }

// End returns the end offset of the frames so far.
func (f *Follower) End() int64 { return f.end }

// Counts reports whether a frame lies beyond the log's recovery point.
func (f *Follower) Counts(fr *journal.Frame) bool { return fr.LSN > f.lc.LSN }

// Skip moves the end past lost frames.
func (f *Follower) Skip(end int64) { f.end = end }

// Take advances the end by one frame. It returns an error if the frame does not continue the log.
func (f *Follower) Take(fr *journal.Frame) error {
	switch {
	case fr.Carried && fr.NextEnd <= f.end:
		return nil // a copy of earlier frames
	case fr.Type != journal.Batches && fr.Type != journal.Gap || fr.PrevEnd != f.end || fr.NextEnd <= fr.PrevEnd:
		return fmt.Errorf("journal frame %d of type %d holds offsets [%d, %d), but the log ends at %d", fr.LSN, fr.Type, fr.PrevEnd,
			fr.NextEnd, f.end)
	}
	f.end = fr.NextEnd
	return nil
}

// apply reads the journal a second time and replays the frames that the segments lack.
func (r *recovery) apply() error {
	done := 0
	ext, err := r.d.journal.Scan(r.ckpt.Redo, func(fr journal.Frame) error {
		if err := r.d.interrupted(); err != nil {
			return err
		}
		done++
		r.progress("frames of the journal replayed", done, r.frames)
		f := r.found[fr.Stream]
		if f == nil || f.err != nil || !f.Counts(&fr) || fr.Carried && fr.NextEnd <= f.l.logEnd.Load() {
			return nil
		}
		if f.err = f.l.replay(&fr, f.l.flush); r.d.memory.deferred.Load() > r.d.memory.bound {
			r.flushForMemory()
		}
		return nil
	})
	if err == nil && ext.Next != r.extent.Next {
		err = fmt.Errorf("%w: the journal ended at LSN %d in the first pass and at %d in the second", journal.ErrDamaged, r.extent.Next,
			ext.Next)
	}
	return err
}

// replayFlush is the number of replayed bytes that are worth a write to a segment.
const replayFlush = 1 << 20

// replay appends a frame's batches to the tail of a log that is not in use, and has write bring
// them to segments when that is worth it. The checkpoint may name an epoch that begins where the
// frame does: one in which the log led without a record, and which it has forgotten when the
// batches of another leader followed.
func (l *Log) replay(f *journal.Frame, write func() error) error {
	n := l.chunkOf(f)
	l.noteReplayed(f)
	if n < replayFlush {
		return nil
	}
	return write()
}

// noteReplayed brings producers, epochs and ends to the end of a frame.
func (l *Log) noteReplayed(f *journal.Frame) {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	if !l.dir.opt.broken.has(keepEpochs) {
		l.epochs.CutEnd(f.PrevEnd)
	}
	l.moveEnd(f.NextEnd)
	eachBatch(f.Payload, func(b record.Batch) {
		l.producers.Replay(b, l.dir.now())
		l.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
	})
	l.producers.Advance(l.storedHigh.offset)
	l.noteUnstableLocked()
	if f.Type == journal.Gap {
		l.epochs.Assign(f.Epoch, f.PrevEnd)
	}
}

// chunkOf appends a frame's batches, or its gap, to the tail as a chunk. It returns how many bytes
// of the tail are not in segments.
func (l *Log) chunkOf(f *journal.Frame) int64 {
	c := l.dir.memory.alloc(l, len(f.Payload))
	c.base, c.next, c.maxTs, c.ready, c.queued = f.PrevEnd, f.NextEnd, -1, true, l.dir.now()
	c.setLSN(f.LSN)
	c.data = append(c.data, f.Payload...)
	if c.gap, c.epoch = f.Type == journal.Gap, f.Epoch; c.gap {
		l.dir.memory.charge(c, gapSize)
	}
	eachBatch(c.data, func(b record.Batch) {
		c.records += int(b.Records())
		c.maxTs = max(c.maxTs, b.MaxTimestamp())
	})
	limits := &l.cfg.Load().Segment
	l.mu.Lock()
	defer l.mu.Unlock()
	c.firstTs = c.maxTs
	l.tail.add(c)
	if l.tail.join(c, limits.Bytes/2, min(limits.Ms, joinMs)) {
		l.dir.memory.joined(c)
	}
	return l.tail.unflushedBytes()
}

// flushForMemory flushes all logs, because the replayed batches have used up the memory bound.
func (r *recovery) flushForMemory() {
	all := slices.Collect(maps.Values(r.found))
	each(len(all), func(i int) {
		if all[i].err == nil && r.d.interrupted() == nil {
			all[i].err = all[i].l.flush()
		}
	})
}
