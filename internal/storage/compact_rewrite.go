package storage

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// rewriteRun is how many bytes are written to a compacted segment at once, about.
const rewriteRun = 1 << 20

// errChanges: something of a segment goes.
var errChanges = errors.New("the segment changes")

// rewrite puts what stays of a group of segments into one. A single one of which
// everything stays is left alone.
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

// unchanged reads a segment up to the first batch that doesn't stay as it is. Where
// there is none the pass is behind the segment then.
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

// rewriting writes one compacted segment. Its memory is a run of batches.
type rewriting struct {
	p        *pass
	base     int64
	interval int
	to       *segment.Segment // nil until something stays
	run      []byte
}

func (w *rewriting) take(group []*segment.Segment) error {
	for _, s := range group {
		err := w.p.batches(s, 0, func(b record.Batch) error {
			out, _, err := w.p.filter.Batch(b)
			if err != nil || out == nil {
				return err
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
	if err := w.flush(); err != nil || w.to == nil || w.p.d.opt.broken.has(hastySwap) {
		return err
	}
	if err := w.to.Seal(); err != nil {
		return err
	}
	// Only retention asks for it, and only where timestamps can't be believed.
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
		return fmt.Errorf("what stays of the segments from %d on takes more than a segment can hold", w.base)
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

// pace spreads what compaction reads and writes over time.
type pace struct {
	mu     sync.Mutex
	begun  time.Time // of the debt
	spent  float64   // bytes since then
	perSec float64   // 0: no limit
}

// paceLeast is the least time that is worth a timer, paceMost what may be made up for.
const paceLeast, paceMost = 2 * time.Millisecond, time.Second

// spend notes bytes, and waits until they are allowed; false when the directory
// closes meanwhile.
func (x *pace) spend(d *Dir, n int) bool {
	x.mu.Lock()
	if x.perSec <= 0 {
		x.mu.Unlock()
		return true
	}
	now := time.Now()
	if now.Sub(x.begun) > x.allowed()+paceMost {
		x.begun, x.spent = now, 0
	}
	x.spent += float64(n)
	wait := x.allowed() - now.Sub(x.begun)
	x.mu.Unlock()
	return wait < paceLeast || d.sleep(wait)
}

// limit changes how many bytes a second are allowed. What was spent before is forgotten; a wait
// under way is not shortened.
func (x *pace) limit(perSec float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.perSec, x.begun, x.spent = perSec, time.Time{}, 0
}

// allowed is the time that the bytes take.
func (x *pace) allowed() time.Duration {
	return time.Duration(x.spent / x.perSec * float64(time.Second))
}
