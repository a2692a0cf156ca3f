package storage

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

const (
	spaceEvery   = time.Second           // between two looks at the free space
	spaceSoonest = 20 * time.Millisecond // the same where much is written
	spaceAsks    = 30 * time.Second      // between two requests for retention while space is low
)

// Space is what the guard of a log directory found when it last looked.
type Space = diskguard.Space

// spaceGuard keeps a directory from filling its disk to the last byte: before it
// is full, new records are refused. An append asks it with one atomic read, and
// says what it wrote with one addition; a goroutine of the directory looks.
type spaceGuard struct {
	found atomic.Pointer[Space]
	left  atomic.Int64  // bytes that may be appended until the next look
	least atomic.Int64  // what left may come down to while the look is due
	looks chan struct{} // asks for one before its time
	asked time.Time     // when the keeper last was, for what retention can take; the goroutine's
	blind bool          // the last look failed; the goroutine's
}

// refuses returns the error of appends to an internal topic, or to others; nil if the free
// space allows them.
func (g *spaceGuard) refuses(internal bool) error {
	s := g.found.Load()
	if s.Level == diskguard.Critical || s.Level == diskguard.Low && !internal {
		return fmt.Errorf("%w: %s", ErrLowSpace, s.Message)
	}
	return nil
}

func (g *spaceGuard) init() {
	g.looks = make(chan struct{}, 1)
	g.unlimited()
	g.found.Store(&Space{})
}

func (g *spaceGuard) unlimited() {
	g.left.Store(math.MaxInt64)
	g.least.Store(math.MinInt64)
}

// allow sets how much may be appended for the look that found s. A busy machine may be late
// with the next look: nothing is taken beyond that before it.
func (g *spaceGuard) allow(s *Space) {
	due, most := s.Allowance()
	g.left.Store(due)
	g.least.Store(due - most)
}

// stale says that more was appended than the last look allowed.
func (g *spaceGuard) stale() bool { return g.left.Load() < g.least.Load() }

var errOverdue = fmt.Errorf("%w: what was free when it was last looked at may be used up; it is looked at in this moment", ErrLowSpace)

// LastSpace returns what the guard found when it last looked.
func (d *Dir) LastSpace() Space { return *d.guard.found.Load() }

// CanCreate returns why no partition should be made for a client now, nil if one may.
// The error matches ErrLowSpace.
func (d *Dir) CanCreate() error { return d.guard.refuses(false) }

// Refusal returns why an append would be refused now, nil if it would be taken: the log
// or its directory has failed, or space is low. It does not block.
func (l *Log) Refusal() error {
	if err := l.Err(); err != nil {
		return err
	}
	g, internal := &l.dir.guard, l.cfg.Load().Cleanup.Internal
	if err := g.refuses(internal); err != nil {
		return err
	}
	if !internal && g.stale() {
		return errOverdue
	}
	return nil
}

// count notes bytes that were appended. Where they may have used up what there was
// above the threshold, the guard looks before its second has passed.
func (g *spaceGuard) count(n int) {
	if g.left.Add(-int64(n)) < 0 {
		signal(g.looks)
	}
}

// guardSpace is the goroutine that looks.
func (d *Dir) guardSpace() {
	ticker := time.NewTicker(spaceEvery)
	defer ticker.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-ticker.C:
		case <-d.guard.looks:
			if !d.sleep(spaceSoonest) {
				return
			}
		}
		d.measureSpace()
	}
}

// measureSpace measures the free space and opens or closes the directory for records. An
// error leaves it as it was.
func (d *Dir) measureSpace() {
	g := &d.guard
	s, err := d.measure()
	if err != nil {
		if !g.blind {
			d.log.Warn("free space of the log directory can't be asked for; records are taken or refused as before", zap.Error(err))
		}
		g.blind = true
		g.unlimited()
		old := *g.found.Load()
		old.Known = false
		g.found.Store(&old)
		return
	}
	g.blind = false
	g.allow(&s)
	old := g.found.Swap(&s)
	d.reportSpace(old.Level, &s)
}

// reportSpace logs a change, and asks the keeper to make room while space is low.
func (d *Dir) reportSpace(before diskguard.Level, s *Space) {
	if s.Level == diskguard.OK {
		if before != diskguard.OK {
			d.log.Info("the disk has room again: records are taken", zap.Int64("free", s.Free), zap.Int64("owed", s.Owed), zap.Int64("journalFree", s.JournalFree), zap.Int64("threshold", s.MinFree))
		}
		return
	}
	if before != s.Level {
		log := d.log.Warn
		if s.Level == diskguard.Critical {
			log = d.log.Error
		}
		log(s.Message, zap.Stringer("level", s.Level), zap.Int64("free", s.Free), zap.Int64("owed", s.Owed), zap.Int64("journalFree", s.JournalFree), zap.Int64("threshold", s.MinFree))
	}
	if now := time.Now(); before == diskguard.OK || now.Sub(d.guard.asked) >= spaceAsks {
		d.guard.asked = now
		d.Reclaim()
	}
}

// measure asks the file systems.
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

// Space asks the file system of the directory for the bytes that may still be
// written to it, and for its size.
func (d *Dir) Space() (available, total int64, err error) {
	r, _, err := d.spaces()
	if err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", d.path, err)
	}
	return r.Free, r.Total, nil
}

// spaces asks the file systems of the directory and of its journal. It also returns the size of
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
	// Of one that is written to meanwhile the answers differ: what the journal's says
	// lies between two of the logs' then.
	later, _ := free(d.path)
	r.Apart = journalTotal != r.Total || r.JournalFree < min(r.Free, later) || r.JournalFree > max(r.Free, later)
	return r, journalTotal, err
}

// journalOptions returns how the directory's journal is opened, in the sizes that are set or follow
// from the disk. Where the disk doesn't say how large it is, it is taken for large.
func (d *Dir) journalOptions() journal.Options {
	sizes := diskguard.LargeDisk
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
