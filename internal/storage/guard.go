package storage

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// AutoMinFree is the value of Options.MinFree that has the threshold follow from
// the size of the file system.
const AutoMinFree = diskguard.Auto

const (
	spaceEvery   = time.Second           // between two looks at the free space
	spaceSoonest = 20 * time.Millisecond // the same where much is written
	spaceAsks    = 30 * time.Second      // between two requests for retention while space is low
)

// SpaceLevel says who may write to a log directory.
type SpaceLevel = diskguard.Level

// The levels.
const (
	SpaceOK       = diskguard.OK
	SpaceLow      = diskguard.Low
	SpaceCritical = diskguard.Critical
)

// Space is what the guard of a log directory found when it last looked.
type Space = diskguard.Space

// spaceGuard keeps a directory from filling its disk to the last byte: before it
// is full, new records are refused. An append asks it with one atomic read, and
// says what it wrote with one addition; a goroutine of the directory looks.
type spaceGuard struct {
	low   atomic.Pointer[lowSpace] // nil: there is room
	found atomic.Pointer[Space]
	left  atomic.Int64  // bytes that may be appended until the next look
	least atomic.Int64  // what left may come down to while the look is due
	looks chan struct{} // asks for one before its time
	asked time.Time     // when the keeper last was, for what retention can take; the goroutine's
	blind bool          // the last look failed; the goroutine's
}

// lowSpace are the errors of appends while space is low; nil where they may.
type lowSpace struct{ clients, internal error }

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

// overdue says that more was appended than the last look allowed.
func (g *spaceGuard) overdue() bool { return g.left.Load() < g.least.Load() }

var errOverdue = fmt.Errorf("%w: what was free when it was last looked at may be used up; it is looked at in this moment", ErrLowSpace)

// LastSpace returns what the guard found when it last looked.
func (d *Dir) LastSpace() Space { return *d.guard.found.Load() }

// Room returns why no partition should be made for a client now, nil if one may.
// The error matches ErrLowSpace.
func (d *Dir) Room() error {
	if low := d.guard.low.Load(); low != nil {
		return low.clients
	}
	return nil
}

// Refusal returns why an append would be refused now, nil if it would be taken: the log
// or its directory has failed, or space is low. It does not block.
func (l *Log) Refusal() error {
	if err := l.Err(); err != nil {
		return err
	}
	low := l.dir.guard.low.Load()
	switch internal := l.cfg.Load().Cleanup.Internal; {
	case low == nil && !internal && l.dir.guard.overdue():
		return errOverdue
	case low == nil:
		return nil
	case internal:
		return low.internal
	default:
		return low.clients
	}
}

// wrote notes bytes that were appended. Where they may have used up what there was
// above the threshold, the guard looks before its second has passed.
func (g *spaceGuard) wrote(n int) {
	if g.left.Add(-int64(n)) < 0 {
		select {
		case g.looks <- struct{}{}:
		default:
		}
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
		d.look()
	}
}

// look measures the free space and opens or closes the directory for records. An
// error leaves it as it was.
func (d *Dir) look() {
	g := &d.guard
	s, err := d.measure()
	if err != nil {
		if !g.blind {
			d.log.Warn("free space of the log directory can't be asked for; records are taken or refused as before", zap.Error(err))
		}
		g.blind = true
		g.unlimited()
		old := d.LastSpace()
		old.Known = false
		g.found.Store(&old)
		return
	}
	g.blind = false
	old := d.LastSpace()
	g.allow(&s)
	refused := fmt.Errorf("%w: %s", ErrLowSpace, s.Message)
	switch s.Level {
	case SpaceOK:
		g.low.Store(nil)
	case SpaceLow:
		g.low.Store(&lowSpace{clients: refused})
	case SpaceCritical:
		g.low.Store(&lowSpace{clients: refused, internal: refused})
	}
	g.found.Store(&s) // last: what LastSpace says is in force
	d.tellSpace(old.Level, &s)
}

// tellSpace logs a change, and asks the keeper to make room while space is low.
func (d *Dir) tellSpace(before SpaceLevel, s *Space) {
	if s.Level == SpaceOK {
		if before != SpaceOK {
			d.log.Info("the disk has room again: records are taken", zap.Int64("free", s.Free), zap.Int64("owed", s.Owed), zap.Int64("journalFree", s.JournalFree), zap.Int64("threshold", s.MinFree))
		}
		return
	}
	if before != s.Level {
		log := d.log.Warn
		if s.Level == SpaceCritical {
			log = d.log.Error
		}
		log(s.Message, zap.Stringer("level", s.Level), zap.Int64("free", s.Free), zap.Int64("owed", s.Owed), zap.Int64("journalFree", s.JournalFree), zap.Int64("threshold", s.MinFree))
	}
	if now := time.Now(); before == SpaceOK || now.Sub(d.guard.asked) >= spaceAsks {
		d.guard.asked = now
		d.Reclaim()
	}
}

// measure asks the file systems.
func (d *Dir) measure() (Space, error) {
	now, err := d.spaces()
	if err != nil {
		return Space{}, err
	}
	r := diskguard.Reading{Free: now.free, Total: now.total, JournalFree: now.journalFree, Apart: now.apart,
		Owed: d.memory.deferred.Load(), Growth: d.journal.Growth()}
	if !now.apart {
		r.Owed += d.journal.Preparing()
	}
	return r.Judge(d.opt.MinFree(), d.LastSpace().Level, d.path, d.jpath), nil
}

// Space asks the file system of the directory for the bytes that may still be
// written to it, and for its size.
func (d *Dir) Space() (available, total int64, err error) {
	s, err := d.spaces()
	if err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", d.path, err)
	}
	return s.free, s.total, nil
}

// spaces is what the file systems of a directory say. apart: the journal is on
// another one than the logs.
type spaces struct {
	free, total, journalFree, journalTotal int64
	apart                                  bool
}

func (d *Dir) spaces() (s spaces, err error) {
	free, total, err := d.opt.FS.Free(d.path)
	if err != nil {
		return s, err
	}
	s.free, s.total = clampBytes(free), clampBytes(total)
	s.journalFree, s.journalTotal = s.free, s.total
	if strings.HasPrefix(d.jpath+"/", d.path+"/") {
		return s, nil
	}
	if free, total, err = d.opt.FS.Free(d.jpath); err != nil {
		return s, err
	}
	s.journalFree, s.journalTotal = clampBytes(free), clampBytes(total)
	// Of one that is written to meanwhile the answers differ: what the journal's says
	// lies between two of the logs' then.
	if free, _, err = d.opt.FS.Free(d.path); err != nil {
		return s, err
	}
	least, most := min(s.free, clampBytes(free)), max(s.free, clampBytes(free))
	s.apart = s.journalTotal != s.total || s.journalFree < least || s.journalFree > most
	return s, nil
}

func clampBytes(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// journalOptions returns how the directory's journal is opened, in the sizes that are set or follow
// from the disk. Where the disk doesn't say how large it is, it is taken for large.
func (d *Dir) journalOptions() journal.Options {
	sizes := diskguard.LargeDisk
	if s, err := d.spaces(); err == nil {
		sizes = diskguard.SizesFor(s.journalTotal, s.apart)
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
