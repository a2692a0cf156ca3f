package storage

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

const (
	measureInterval    = time.Second           // interval between measurements of the free space
	measureMinInterval = 20 * time.Millisecond // the same during heavy writes
	reclaimInterval    = 30 * time.Second      // interval between requests for retention while space is low
)

// Space is the result of a log directory's last measurement of free space.
type Space = diskguard.Space

// spaceGuard refuses new records before the directory's disk is full. An append reads it with one
// atomic load and counts its bytes with one atomic addition. A goroutine of the directory measures
// the free space.
type spaceGuard struct {
	last           atomic.Pointer[Space]
	allowance      atomic.Int64  // bytes that may be appended until the next measurement
	allowanceFloor atomic.Int64  // lower bound of allowance until a due measurement is made
	wake           chan struct{} // capacity 1: appends request an early measurement
	lastReclaim    time.Time     // time of the last request for retention; used by the goroutine only
	failing        bool          // the last measurement failed; used by the goroutine only
	lacks          atomic.Int64  // bytes that a repair needs and the disk did not have; 0: none
}

// refuses returns the error with which appends to internal or other topics are refused, nil if they
// are not.
func (g *spaceGuard) refuses(internal bool) error {
	s := g.last.Load()
	if s.Level == diskguard.Critical || s.Level == diskguard.Low && !internal {
		return fmt.Errorf("%w: %s", ErrLowSpace, s.Message)
	}
	return nil
}

func (g *spaceGuard) init() {
	g.wake = make(chan struct{}, 1)
	g.unlimited()
	g.last.Store(&Space{})
}

func (g *spaceGuard) unlimited() {
	g.allowance.Store(math.MaxInt64)
	g.allowanceFloor.Store(math.MinInt64)
}

// allow sets how much may be appended after measurement s. On a busy machine the next measurement
// may be late; until then, nothing beyond this limit is accepted for topics of clients.
func (g *spaceGuard) allow(s *Space) {
	due, most := s.Allowance()
	g.allowance.Store(due)
	g.allowanceFloor.Store(due - most)
}

// stale reports whether more was appended than the last measurement allows.
func (g *spaceGuard) stale() bool { return g.allowance.Load() < g.allowanceFloor.Load() }

var errOverdue = fmt.Errorf("%w: the last free-space measurement is too old; measuring again, please retry", ErrLowSpace)

// LastSpace returns the result of the last measurement. It does not block.
func (d *Dir) LastSpace() Space { return *d.guard.last.Load() }

// CanCreate returns why clients may not create partitions now, nil if they may. The error matches
// ErrLowSpace.
func (d *Dir) CanCreate() error { return d.guard.refuses(false) }

// count counts appended bytes. If they may have used up the space above the threshold, the guard
// measures early.
func (g *spaceGuard) count(n int) {
	if g.allowance.Add(-int64(n)) < 0 {
		signal(g.wake)
	}
}

// guardSpace is the goroutine that measures the free space.
func (d *Dir) guardSpace() {
	label.Goroutine("storage space", d.path)
	ticker := time.NewTicker(measureInterval)
	defer ticker.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-ticker.C:
		case <-d.guard.wake:
			if !d.sleep(measureMinInterval) {
				return
			}
		}
		d.measureSpace()
	}
}

// measureSpace measures the free space and sets whether the directory accepts records. After an
// error that stays as it was.
func (d *Dir) measureSpace() {
	g := &d.guard
	s, err := d.measure()
	if err != nil {
		if !g.failing {
			d.log.Warn("free space of the log directory could not be measured; its last state remains in force", zap.Error(err))
		}
		g.failing = true
		g.unlimited()
		old := *g.last.Load()
		old.Known = false
		g.last.Store(&old)
		return
	}
	g.failing = false
	g.allow(&s)
	old := g.last.Swap(&s)
	d.reportSpace(old.Level, &s)
	if n := g.lacks.Load(); old.Level != diskguard.OK && s.Level == diskguard.OK || n > 0 && s.Free >= n {
		g.lacks.Store(0)
		d.spaceAgain()
	}
}

// reportSpace logs a change, and requests retention while space is low.
func (d *Dir) reportSpace(before diskguard.Level, s *Space) {
	fields := []zap.Field{zap.Stringer("level", s.Level), zap.Int64("free", s.Free), zap.Int64("owed", s.Owed),
		zap.Int64("journalFree", s.JournalFree), zap.Int64("threshold", s.MinFree)}
	switch s.Level {
	case before:
	case diskguard.OK:
		d.log.Info("the disk has enough free space again; accepting records", fields...)
	case diskguard.Critical:
		d.log.Error(s.Message, fields...)
	default:
		d.log.Warn(s.Message, fields...)
	}
	if s.Level == diskguard.OK {
		return
	}
	if now := time.Now(); before == diskguard.OK || now.Sub(d.guard.lastReclaim) >= reclaimInterval {
		d.guard.lastReclaim = now
		d.Reclaim()
	}
}

// measure queries the file systems.
func (d *Dir) measure() (Space, error) {
	r, _, err := d.spaces()
	if err != nil {
		return Space{}, err
	}
	r.Owed, r.Growth = d.memory.deferred.Load(), d.journal.Growth()
	if !r.Apart {
		r.Owed += d.journal.Preparing()
	}
	return r.Judge(d.opt.MinFree(), d.LastSpace().Level, d.path, d.jpath), nil
}

// Space returns the bytes available on the directory's file system, and its size.
func (d *Dir) Space() (available, total int64, err error) {
	r, _, err := d.spaces()
	if err != nil {
		return 0, 0, fmt.Errorf("measure free space of %s: %w", d.path, err)
	}
	return r.Free, r.Total, nil
}

// spaces queries the file systems of the directory and of its journal. It also returns the size of
// the latter.
func (d *Dir) spaces() (r diskguard.Reading, journalTotal int64, err error) {
	free := func(dir string) (available, total int64) {
		a, t, e := d.opt.FS.Free(dir)
		err = cmp.Or(err, e)
		return int64(min(a, math.MaxInt64)), int64(min(t, math.MaxInt64))
	}
	r.Free, r.Total = free(d.path)
	r.JournalFree, journalTotal = r.Free, r.Total
	if strings.HasPrefix(d.jpath+"/", d.path+"/") {
		return r, journalTotal, err
	}
	r.JournalFree, journalTotal = free(d.jpath)
	// While the file system is written to, the answers differ even if both directories are on the
	// same one. Then the journal's value lies between two of the directory's.
	later, _ := free(d.path)
	r.Apart = journalTotal != r.Total || r.JournalFree < min(r.Free, later) || r.JournalFree > max(r.Free, later)
	return r, journalTotal, err
}

// journalOptions returns the options of the directory's journal, with its configured sizes or those
// that suit the disk. A disk of unknown size counts as large.
func (d *Dir) journalOptions() journal.Options {
	sizes := diskguard.LargeDisk()
	if r, total, err := d.spaces(); err == nil {
		sizes = diskguard.SizesFor(total, r.Apart)
	}
	if n := d.opt.JournalFileSize; n > 0 {
		sizes = diskguard.JournalSizes{File: n, All: max(sizes.All, 4*n)}
	}
	if n := d.opt.JournalBytes; n > 0 {
		sizes.All = n
	}
	d.sizes = sizes
	return journal.Options{FS: d.opt.FS, Dir: d.jpath, ID: d.ident.Journal, FileSize: sizes.File, MaxBytes: sizes.All}
}

// SpaceRemedy ends Space.Message.
const SpaceRemedy = diskguard.Remedy
