package storage

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/storage/cleaner"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// attempts records the failed compactions of a log. Guarded by Dir.compactingMu.
type attempts struct {
	failures int
	retry    time.Time // earliest time of the next pass
}

// compactBackoff bounds the pause of a log after a failed pass.
var compactBackoff = pause.Backoff{First: 15 * time.Second, Most: time.Hour}

// paceIdle is the idle time that compaction and moves make up for; their steps take unequal times.
const paceIdle = time.Second

// compactNext runs one pass over the log that needs it most, and reports whether one was due. The
// pass ends early if the directory is being closed.
func (d *Dir) compactNext() (did bool) {
	d.compactingMu.Lock()
	defer d.compactingMu.Unlock()
	l, dirt := d.mostDirty(time.Now())
	if l == nil || d.stopping() || d.spaceCritical() {
		return false
	}
	p := &pass{d: d, l: l, now: time.Now(), dirt: dirt}
	err := p.run()
	d.stats.cleaner.mapBytes.Set(0)
	switch {
	case err == nil:
		l.attempts = attempts{}
		p.report()
	case errors.Is(err, errAbandoned):
		d.log.Debug("compaction abandoned", zap.Stringer("log", l), zap.Error(err))
		l.attempts.retry = time.Now().Add(compactBackoff.First) // not at once: the log may be about to be deleted
	default:
		d.stats.cleaner.failures.Inc()
		l.attempts.failures++
		wait := compactBackoff.After(l.attempts.failures)
		l.attempts.retry = time.Now().Add(wait)
		d.logOnce(l, "compaction failed; the log grows until it succeeds", fmt.Errorf("next attempt in %v: %w", wait, err))
	}
	return true
}

// spaceCritical reports whether the disk lacks space for the segments that a pass writes before the
// old ones are removed. Critical space is left for records that must be written.
func (d *Dir) spaceCritical() bool { return d.LastSpace().Level == diskguard.Critical }

// mostDirty returns the log with the highest dirty ratio among those that are due.
func (d *Dir) mostDirty(now time.Time) (best *Log, dirt cleaner.Dirt) {
	most, stopped := 0.0, 0
	for _, l := range d.Logs() {
		if !l.cfg.Load().Cleanup.Compact {
			l.attempts = attempts{}
			continue
		}
		if l.attempts.failures > 0 {
			stopped++
		}
		if now.Before(l.attempts.retry) || l.Err() != nil {
			continue
		}
		x, err := l.measureDirt(now)
		if err != nil {
			d.logOnce(l, "measuring the dirty ratio of a log failed", err)
			continue
		}
		if most = max(most, x.Ratio()); x.Due() && (best == nil || cmp.Compare(x.Ratio(), dirt.Ratio()) > 0) {
			best, dirt = l, x
		}
	}
	d.stats.cleaner.maxDirty.Set(most)
	d.stats.cleaner.stopped.Set(float64(stopped))
	return best, dirt
}

// measureDirt measures how much of the log a pass would compact.
func (l *Log) measureDirt(now time.Time) (cleaner.Dirt, error) {
	c := l.cfg.Load().Cleanup
	limit := l.stable()
	l.mu.RLock()
	list, limit := l.inactiveLocked(), min(limit, l.rp.Offset)
	clean := max(l.firstDirty, l.logStart.Load())
	l.mu.RUnlock()
	segments := make([]cleaner.Segment, len(list))
	for i, s := range list {
		segments[i] = s.plan()
	}
	return cleaner.Measure(segments, clean, limit, now.UnixMilli(), cleaner.Compaction{
		MinDirty: c.MinDirty, MinLag: c.MinLag.Milliseconds(), MaxLag: c.MaxLag.Milliseconds(),
	})
}

// part is a segment with its end offset.
type part struct {
	*segment.Segment
	next int64
}

// plan describes the segment to package cleaner, without the number of its index entries.
func (s part) plan() cleaner.Segment {
	return cleaner.Segment{
		Base: s.Base(), Next: s.next, Bytes: s.Size(), Latest: s.Newest,
		First: func() (int64, error) {
			ts, _ := s.First() // the pass reports a read error
			return ts, nil
		},
	}
}

// inactiveLocked returns all segments but the active one. The caller holds mu.
func (l *Log) inactiveLocked() []part {
	var list []part
	for i := 0; i+1 < len(l.segments); i++ {
		list = append(list, part{l.segments[i], l.segments[i+1].Base()})
	}
	return list
}

// pass is one compaction of one log.
type pass struct {
	d    *Dir
	l    *Log
	now  time.Time
	dirt cleaner.Dirt

	list  []part // segments that may be compacted
	cuts  int    // number of truncations before the pass
	read  int64  // bytes of batches, for the rate limit
	wrote int64

	filter cleaner.Filter
}

// run maps the keys of the dirty segments, and rewrites all segments below the end of the map.
func (p *pass) run() error {
	l := p.l
	l.mu.RLock()
	for _, s := range l.inactiveLocked() {
		if s.next <= p.dirt.Until {
			p.list = append(p.list, s)
		}
	}
	p.cuts = l.cuts
	l.mu.RUnlock()
	if err := p.fill(); err != nil {
		return p.wrapError(err)
	}
	if p.filter.End <= p.dirt.From {
		return fmt.Errorf("%w: an open transaction begins at the first dirty offset of %s", errAbandoned, l)
	}
	cfg := l.cfg.Load()
	for _, group := range p.groups(cfg) {
		if err := p.rewrite(group, cfg); err != nil {
			return p.wrapError(err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cuts == p.cuts {
		l.firstDirty = max(l.firstDirty, p.filter.End) // durable with the next checkpoint; until then a pass would repeat this one
	}
	return nil
}

// wrapError returns errAbandoned if the log was deleted or truncated during the pass, since that
// may be the cause of err. Otherwise it returns err with context.
func (p *pass) wrapError(err error) error {
	if e := p.checkWanted(); e != nil {
		return e
	}
	if errors.Is(err, segment.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("compact %s: %w", p.l, err)
}

// checkWanted returns an error if the pass should not continue.
func (p *pass) checkWanted() error {
	l := p.l
	l.mu.RLock()
	defer l.mu.RUnlock()
	if p.d.spaceCritical() || l.unusableLocked() != nil || l.cuts != p.cuts || !l.cfg.Load().Cleanup.Compact ||
		l.logStart.Load() > p.dirt.Until {
		return fmt.Errorf("%w: %s", errAbandoned, l)
	}
	return nil
}

// step is called after n bytes were read or written. It returns an error if the pass should not
// continue, and otherwise waits as the rate limit demands, which may take minutes, or until that is
// changed.
func (p *pass) step(n int) error {
	if err := p.checkWanted(); err != nil {
		return err
	}
	rate := p.d.cleaning.Load().BytesPerSecond
	until := time.Now().Add(p.d.pace.Count(n, float64(rate)))
	for left := time.Until(until); left > 0 && p.d.cleaning.Load().BytesPerSecond == rate; left = time.Until(until) {
		if !p.d.sleep(min(left, noticed)) {
			return errAbandoned
		}
		if err := p.checkWanted(); err != nil {
			return err
		}
	}
	return nil
}

// errTransactions: the map cannot be filled before the outcomes of transactions are known.
var errTransactions = errors.New("the log has transactions")

// errStop ends a walk over batches early.
var errStop = errors.New("enough was read")

// fill creates the filter: the map of keys, its end, and the outcomes of transactions.
func (p *pass) fill() error {
	keys := cleaner.NewKeyMap(p.d.cleaning.Load().KeyBytes)
	var o *cleaner.Outcomes
	m, err := p.mapKeys(keys, o)
	if errors.Is(err, errTransactions) {
		o = &cleaner.Outcomes{}
		if err := p.outcomes(o); err != nil {
			return err
		}
		m, err = p.mapKeys(keys, o)
	}
	if err != nil {
		return err
	}
	last := p.l.lastOffsets()
	p.filter = cleaner.Filter{
		Keys: keys, End: m.End, Last: m.Last, Now: p.now.UnixMilli(), Tombstones: p.l.cfg.Load().Cleanup.Tombstones.Milliseconds(),
		IsLast: func(id, offset int64) bool {
			at, known := last[id]
			return known && (at.Batch == offset || at.Marker == offset)
		},
		Inflate: p.d.opt.inflating(), Transactions: cleaner.NewTransactions(o.Aborted()),
	}
	return nil
}

// mapKeys fills the map from the dirty batches. It stops at the first transaction that is open. If
// o is nil, it fails with errTransactions at the first batch of a transaction.
func (p *pass) mapKeys(keys *cleaner.KeyMap, o *cleaner.Outcomes) (*cleaner.Mapper, error) {
	limit := o.Stable(p.dirt.Until)
	m := &cleaner.Mapper{Keys: keys, From: p.dirt.From, End: p.dirt.From, Last: p.dirt.From - 1,
		Inflate: p.d.opt.inflating(), Transactions: cleaner.NewTransactions(o.Aborted())}
	for _, s := range p.list {
		if s.next <= p.dirt.From {
			continue
		}
		err := p.batches(s.Segment, p.dirt.From, func(b record.Batch) error {
			if b.LastOffset() >= limit {
				return errStop
			}
			if o == nil && (b.Transactional() || b.Control()) {
				return errTransactions
			}
			more, err := m.Batch(b)
			if err == nil && !more {
				err = errStop
			}
			return err
		})
		p.d.stats.cleaner.mapBytes.Set(float64(keys.Bytes()))
		if errors.Is(err, errStop) {
			return m, nil
		}
		if err != nil {
			return m, err
		}
		m.End = max(m.End, min(s.next, limit)) // the last offsets of the segment may have been compacted away
	}
	return m, nil
}

// outcomes reads the outcomes of the transactions in the dirty part. It reads up to the end of the
// segments, since their markers may lie beyond that part.
func (p *pass) outcomes(o *cleaner.Outcomes) error {
	list, err := p.l.snapshot()
	if err != nil {
		return err
	}
	for i, s := range list {
		if i+1 < len(list) && list[i+1].Base() <= p.dirt.From {
			continue
		}
		if err := p.batches(s, p.dirt.From, o.Batch); err != nil {
			return err
		}
	}
	return nil
}

// batches calls fn with the batches of a segment, at the permitted rate.
func (p *pass) batches(s *segment.Segment, from int64, fn func(record.Batch) error) error {
	err := s.Batches(from, func(b record.Batch) error {
		p.read += int64(len(b))
		p.d.stats.cleaner.read.Add(float64(len(b)))
		if err := p.step(len(b)); err != nil {
			return err
		}
		return fn(b)
	})
	if errors.Is(err, segment.ErrCorrupt) && p.checkWanted() == nil {
		p.l.examine(s, err)
	}
	return err
}

// groups divides the segments below the end of the map into groups, each of which becomes one
// segment.
func (p *pass) groups(cfg *Config) [][]*segment.Segment {
	var list []cleaner.Segment
	for _, s := range p.list {
		if s.Base() < p.filter.End {
			next := s.plan()
			next.Entries = s.Entries()
			list = append(list, next)
		}
	}
	var groups [][]*segment.Segment
	at := 0
	for _, g := range cleaner.Group(list, min(cfg.Segment.Bytes, math.MaxInt32), max(cfg.Segment.IndexBytes/8, 1)) {
		var group []*segment.Segment
		for range g {
			group = append(group, p.list[at].Segment)
			at++
		}
		groups = append(groups, group)
	}
	return groups
}

// lastOffsets returns the last offsets of each known producer.
func (l *Log) lastOffsets() map[int64]producers.Last {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.LastOffsets()
}

// report logs and counts a completed pass.
func (p *pass) report() {
	took, c := time.Since(p.now), &p.d.stats.cleaner
	c.passes.Inc()
	c.records.Add(float64(p.filter.Removed))
	c.lastRun.Set(float64(time.Now().Unix()))
	c.lastSeconds.Set(took.Seconds())
	p.d.failed.Ended(series.Key(p.l.String(), ""))
	p.d.log.Info("log compacted", zap.String("topic", p.l.topic), zap.Int32("partition", p.l.id.Partition),
		zap.Int64("from", p.dirt.From), zap.Int64("to", p.filter.End), zap.Float64("dirty", math.Round(p.dirt.Ratio()*100)/100),
		zap.Int("keys", p.filter.Keys.Len()), zap.Int64("kept", p.filter.Kept), zap.Int64("removed", p.filter.Removed),
		zap.Int64("read", p.read), zap.Int64("written", p.wrote), zap.Duration("took", took))
}
