package storage

import (
	"errors"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// rewriteRun is the approximate size of a write to a compacted segment, in bytes.
const rewriteRun = 1 << 20

// errChanges: compaction changes the segment.
var errChanges = errors.New("the segment changes")

// rewrite writes the remaining batches of a group of segments to one segment. A single segment that
// would not change is left as it is.
func (p *pass) rewrite(group []*segment.Segment, cfg *Config) error {
	if len(group) == 1 {
		same, err := p.unchanged(group[0])
		if same || err != nil {
			return err
		}
	}
	w := rewriting{p: p, base: group[0].Base(), interval: cfg.Segment.IndexInterval}
	err := w.take(group)
	if err != nil {
		return errors.Join(err, discard(w.to))
	}
	return p.l.replace(group, w.to, p.cuts)
}

// unchanged reads a segment up to the first batch that compaction changes, and reports whether
// there is none. Then the filter has also advanced past the segment.
func (p *pass) unchanged(s *segment.Segment) (bool, error) {
	trial := p.filter
	trial.Transactions = p.filter.Transactions.Clone()
	err := p.batches(s, 0, func(b record.Batch) error {
		_, changed, err := trial.Batch(b)
		if err == nil && changed {
			err = errChanges
		}
		return err
	})
	if errors.Is(err, errChanges) {
		return false, nil
	}
	if err == nil {
		p.filter = trial
	}
	return err == nil, err
}

// rewriting writes one compacted segment. It buffers one run of batches.
type rewriting struct {
	p        *pass
	base     int64
	interval int
	to       *segment.Segment // nil until a batch remains
	run      []byte
	aborted  []txnindex.Entry // of the new segment
}

func (w *rewriting) take(group []*segment.Segment) error {
	for _, s := range group {
		aborted, err := w.p.l.abortedOf(s)
		if err != nil {
			return err
		}
		err = w.p.batches(s, 0, func(b record.Batch) error {
			out, _, err := w.p.filter.Batch(b)
			if err != nil || out == nil {
				return err
			}
			for len(aborted) > 0 && aborted[0].Last < b.LastOffset() {
				aborted = aborted[1:]
			}
			// A reader may have read records that this pass removes, and looks for their entry
			// next. So the entry goes with a later pass, which finds none of them.
			if len(aborted) > 0 && aborted[0].Last == b.LastOffset() && !w.p.filter.Free {
				w.aborted = append(w.aborted, aborted[0])
			}
			w.run = append(w.run, out...)
			if len(w.run) >= rewriteRun {
				return w.flush()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil || w.to == nil {
		return err
	}
	w.to.HoldAborted(w.aborted)
	if w.p.d.opt.broken.has(skipCompactedSync) {
		return nil
	}
	if err := w.to.Seal(); err != nil {
		return err
	}
	// Only retention uses the age, and only if timestamps are not believable. So an error is
	// ignored.
	_ = w.to.KeepAge(group)
	return nil
}

func (w *rewriting) flush() error {
	if len(w.run) == 0 {
		return nil
	}
	l := w.p.l
	if w.to == nil {
		s, err := segment.CreateCleaned(l.dir.files, l.path, w.base)
		if err != nil {
			return err
		}
		w.to = s
	}
	if w.to.Size()+int64(len(w.run)) > math.MaxInt32 {
		return fmt.Errorf("the remaining records of the segments from %d on exceed the size of a segment", w.base)
	}
	if err := w.to.Append([][]byte{w.run}, w.interval); err != nil {
		return err
	}
	n := len(w.run)
	w.p.wrote += int64(n)
	w.p.d.stats.cleaner.written.Add(float64(n))
	w.run = w.run[:0]
	return w.p.step(n)
}
