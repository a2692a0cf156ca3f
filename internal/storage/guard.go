package storage

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// AutoMinFree is the value of Options.MinFree that has the threshold follow from
// the size of the file system.
const AutoMinFree = -1

// The bounds of an automatic threshold: 5 % of the file system within them, and
// never more than a quarter of it, so that a small one can be used at all.
const (
	autoMinFreeLow  = 256 << 20
	autoMinFreeHigh = 10 << 30
)

const (
	spaceEvery   = time.Second           // between two looks at the free space
	spaceSoonest = 20 * time.Millisecond // the same where much is written
	spaceStride  = 1 << 20               // least bytes that are written between two looks
	spaceAsks    = 30 * time.Second      // between two requests for retention while space is low
)

// SpaceLevel says who may write to a log directory.
type SpaceLevel uint8

const (
	// SpaceOK means that everybody may.
	SpaceOK SpaceLevel = iota
	// SpaceLow means below the threshold. Records of clients are refused and no
	// partitions are made for them; internal topics go on.
	SpaceLow
	// SpaceCritical means below half of the threshold. All records are refused.
	SpaceCritical
)

// String is "ok", "low" or "critical".
func (l SpaceLevel) String() string { return [...]string{"ok", "low", "critical"}[l] }

// Space is what the guard of a log directory found when it last looked.
type Space struct {
	Level SpaceLevel
	// Known is false where the file system did not say, or nobody asked it.
	Known bool
	// Free and Total are bytes of the file system that the logs are on, JournalFree
	// of the one that the journal is on.
	Free, Total, JournalFree int64
	// Owed are bytes of Free that will be taken without another record: of what is
	// in memory and not yet in segments, and of the journal's files that are being made.
	Owed int64
	// MinFree is the threshold in bytes, 0 where the guard is off.
	MinFree int64
	// Message says with the numbers why records are refused, and what helps; empty
	// while Level is SpaceOK.
	Message string
}

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

// allow sets how much may be appended for the look that found s. After a quarter of
// what there is above the threshold the next look is due. After half of it, which
// may be all, because a record can take its bytes twice, in the journal and in a
// segment, nothing more is taken before that look: a busy machine may be late.
func (g *spaceGuard) allow(s *Space) {
	if s.MinFree == 0 {
		g.unlimited()
		return
	}
	margin := s.Free - s.Owed - s.MinFree
	soon := max(margin/4, spaceStride)
	g.left.Store(soon)
	g.least.Store(soon - max(margin/2, 2*spaceStride))
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

// refusal returns why the log takes no records now, nil if it does.
func (l *Log) refusal() error {
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
	switch s.Level {
	case SpaceOK:
		g.low.Store(nil)
	case SpaceLow:
		g.low.Store(&lowSpace{clients: s.err()})
	case SpaceCritical:
		g.low.Store(&lowSpace{clients: s.err(), internal: s.err()})
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
	s := Space{Known: true, Free: now.free, Total: now.total, JournalFree: now.journalFree}
	s.MinFree = threshold(d.opt.MinFree(), s.Total)
	if s.MinFree == 0 {
		return s, nil
	}
	if s.Owed = d.memory.deferred.Load(); !now.apart {
		s.Owed += d.journal.Preparing()
	}
	before := d.LastSpace().Level
	if s.Level = levelOf(s.Free-s.Owed, s.MinFree, before); s.Level != SpaceOK {
		s.Message = spaceMessage("log directory "+d.path, s.Free, s.Owed, s.MinFree, s.Level)
	}
	// A journal on a disk of its own may fill it: what counts is what it may still
	// grow by.
	if need := min(s.MinFree, d.journal.Growth()); now.apart && need > 0 {
		if l := levelOf(s.JournalFree, need, before); l > s.Level {
			s.Level, s.Message = l, spaceMessage("journal directory "+d.jpath, s.JournalFree, 0, need, l)
		}
	}
	return s, nil
}

func clampBytes(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// threshold is the one in force, in bytes, on a file system of a size.
func threshold(set, total int64) int64 {
	if set >= 0 {
		return set
	}
	return min(max(min(total/20, autoMinFreeHigh), autoMinFreeLow), total/4)
}

// levelOf says what free bytes mean after a level: what was left because of a
// threshold is come back to at a tenth more.
func levelOf(free, need int64, before SpaceLevel) SpaceLevel {
	at := func(threshold int64, was bool) bool {
		if was {
			threshold += threshold / 10
		}
		return free < threshold
	}
	switch {
	case at(need/2, before == SpaceCritical):
		return SpaceCritical
	case at(need, before != SpaceOK):
		return SpaceLow
	default:
		return SpaceOK
	}
}

func (s *Space) err() error { return fmt.Errorf("%w: %s", ErrLowSpace, s.Message) }

func spaceMessage(what string, free, owed, need int64, level SpaceLevel) string {
	has := bytesText(free) + " free"
	if owed > 0 && free >= need {
		has += ", " + bytesText(owed) + " of it spoken for by what is in memory and by the journal's next file"
	}
	who := "records of clients are refused, internal topics go on"
	if level == SpaceCritical {
		who = "all records are refused"
	}
	return fmt.Sprintf("%s has %s, the threshold is %s (chronik.disk.min.free.bytes): %s until %s are free; delete records or topics, lower retention, or enlarge the disk",
		what, has, bytesText(need), who, bytesText(need+need/10))
}

// bytesText is a size for people, never rounded up.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
