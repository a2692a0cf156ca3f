package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// contentOf returns all batches that a Hold reads, up to end.
func contentOf(h *Hold, from, end int64) (all []byte, err error) {
	for at := from; at < end; {
		s, err := h.Read(at, end, 64<<10, true)
		if err != nil {
			return all, err
		}
		if s.Size == 0 {
			return all, nil
		}
		for _, p := range s.Parts {
			all = append(all, p...)
		}
		_, at = boundsOf(s.Parts)
		s.Release()
	}
	return all, nil
}

// writesCompacted reports whether a pass has written a segment and not swapped it yet.
func writesCompacted(fsys vfs.FS) bool {
	files, _ := fsys.List("/d/t-0")
	return slices.ContainsFunc(files, func(f vfs.Info) bool { return strings.HasSuffix(f.Name, segment.SwapSuffix) })
}

// compactHeld fills a compacted log whose early records are superseded, holds it, and has it
// compacted. It returns an error if the log changes while it is held.
func compactHeld(t testing.TB, b broken) error {
	t.Helper()
	fsys := crashfs.New(1)
	d, l := compactLog(t, fsys, "sync", func(o *Options) { o.broken = b })
	for i := range 60 {
		if a := send(l, keyed(t, fmt.Sprint(i*(i%2)), strings.Repeat("v", 200), nil)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	synced(t, l)
	must(t, l.flushAll())
	h := l.Hold()
	end := l.AckEnd()
	want, err := contentOf(h, 0, end)
	must(t, err)
	ended := make(chan bool)
	go func() { ended <- d.compactNext() }()
	eventually(t, "the pass waits, or has ended", func() bool { return writesCompacted(fsys) || l.Changes() > 0 })
	must(t, h.Steady())
	got, err := contentOf(h, 0, end)
	result := errors.Join(err, h.Kept(end))
	if result == nil && !bytes.Equal(got, want) {
		result = errors.New("the log was compacted")
	}
	h.Release()
	if !<-ended {
		t.Error("no pass was due")
	}
	if result == nil && l.Changes() == 0 {
		t.Error("the pass has not waited for the end of the hold")
	}
	return result
}

func TestCompactionWaitsForHolds(t *testing.T) { must(t, compactHeld(t, broken{})) }

// heldLog returns a log of several segments, and a hold of it.
func heldLog(t testing.TB, change ...func(*Options)) (*Dir, *Log, *Hold) {
	t.Helper()
	d := mustOpen(t, crashfs.New(1), "sync", change...)
	l := makeLogs(t, d, 1, "sync")[0]
	cfg := testConfig("sync")
	cfg.Segment.Bytes = 4 << 10
	l.Configure(cfg)
	l.Observe(idle{})
	put(t, l, 20, 1000)
	must(t, l.flushAll())
	h := l.Hold()
	return d, l, h
}

// The log start moves, and a hold reads below it until it is released.
func TestAHoldReadsBelowTheLogStart(t *testing.T) {
	d, l, h := heldLog(t, func(o *Options) { o.RetentionInterval = time.Hour }) // the release removes them
	want, err := contentOf(h, 0, 20)
	must(t, err)
	segments := len(l.segments)
	for _, to := range []int64{3, 17, 20} {
		moves := []StartMove{{Log: l, To: to}}
		d.MoveStarts(moves)
		must(t, moves[0].Err)
	}
	later := l.Hold()
	got, err := contentOf(h, 0, 20)
	if err != nil || !bytes.Equal(got, want) || len(l.segments) != segments || l.Ends().LogStart != 20 {
		t.Errorf("%d bytes of %d, %d segments of %d, %v", len(got), len(want), len(l.segments), segments, err)
	}
	if _, err := l.Read(5, 20, 1000, true); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("another reader: %v", err)
	}
	if _, err := later.Read(5, 20, 1000, true); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("a later hold: %v", err)
	}
	other := l.Hold()
	h.Release()
	h.Release()
	eventually(t, "the segments are removed", func() bool { l.mu.RLock(); defer l.mu.RUnlock(); return len(l.segments) <= 1 })
	if _, err := contentOf(h, 0, 20); !errors.Is(err, ErrOffsetOutOfRange) && err != nil {
		t.Errorf("after the release: %v", err)
	}
	later.Release()
	other.Release()
	if len(l.holds) != 0 {
		t.Errorf("%d holds are left", len(l.holds))
	}
}

// copied is an observer whose records the object store has.
type copied struct{ idle }

func (copied) Copied() int64 { return math.MaxInt64 - 1 }

// retain applies a retention of size bytes to a log.
func retain(t testing.TB, d *Dir, l *Log, size int64) {
	t.Helper()
	cfg := *l.cfg.Load()
	cfg.Cleanup = Cleanup{Delete: true, RetentionTime: -1, RetentionBytes: size}
	l.Configure(cfg)
	eventually(t, "the log is not busy", func() bool { return len(d.applyRetentionTo([]*Log{l})) == 0 })
}

// A hold that was eased keeps nothing from retention, and never reads other records than it had.
// It tells what retention has taken, before and after, so that its reader can begin behind that.
func TestAnEasedHoldNotesWhatIsLost(t *testing.T) {
	d, l, h := heldLog(t, func(o *Options) { o.RetentionInterval = time.Hour })
	retain(t, d, l, 12<<10)
	first := h.Expired()
	if first == 0 || first != l.Ends().LogStart || h.First() != 0 {
		t.Fatalf("retention has taken the records below %d, the log starts at %d and the hold at %d", first, l.Ends().LogStart, h.First())
	}
	if _, err := contentOf(h, 0, 20); err != nil {
		t.Errorf("a read of what is held: %v", err)
	}
	h.Ease()
	eventually(t, "segments are removed", func() bool { return h.First() == first })
	retain(t, d, l, 4<<10)
	if h.Expired() <= first || h.First() != h.Expired() {
		t.Errorf("retention has taken the records below %d, then %d, and the hold starts at %d", first, h.Expired(), h.First())
	}
	if _, err := contentOf(h, 0, 20); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("a read of what is gone: %v", err)
	}
	if all, err := contentOf(h, h.First(), 20); err != nil || len(all) == 0 {
		t.Errorf("a read of what is left: %d bytes, %v", len(all), err)
	}
	must(t, h.Kept(20))
}

// What a deletion of records has taken, or local retention, a hold keeps until its release.
func TestAnEasedHoldKeepsWhatHasNotExpired(t *testing.T) {
	for what, move := range map[string]func(d *Dir, l *Log){
		"a deletion of records": func(d *Dir, l *Log) {
			moves := []StartMove{{Log: l, To: 18}}
			d.MoveStarts(moves)
			must(t, moves[0].Err)
		},
		"local retention": func(d *Dir, l *Log) {
			l.Observe(copied{})
			retain(t, d, l, 4<<10)
		},
	} {
		d, l, h := heldLog(t, func(o *Options) { o.RetentionInterval = time.Hour })
		want, err := contentOf(h, 0, 20)
		must(t, err)
		move(d, l)
		h.Ease()
		move(d, l)
		retain(t, d, l, 1<<40) // a run that only finds what lies below the log start
		got, err := contentOf(h, 0, 20)
		if err != nil || !bytes.Equal(got, want) || h.Expired() != 0 || l.Ends().LogStart == 0 {
			t.Errorf("%s: %d bytes of %d, expired below %d, the log starts at %d: %v", what, len(got), len(want), h.Expired(),
				l.Ends().LogStart, err)
		}
		h.Release()
		eventually(t, "the segments are removed", func() bool { l.mu.RLock(); defer l.mu.RUnlock(); return len(l.segments) <= 2 })
	}
}

// Records may leave a log before they are in a segment. A hold never reads a hole in their place.
func TestAHoldNotesWhatWasOnlyInMemory(t *testing.T) {
	low := func(d *Dir, l *Log) {
		d.guard.last.Store(&Space{Level: diskguard.Low})
		moves := []StartMove{{Log: l, To: 20}}
		d.MoveStarts(moves)
		must(t, moves[0].Err)
	}
	for _, c := range []struct {
		what    string
		weaken  func(*Hold)
		remove  func(*Dir, *Log)
		expired int64
	}{
		{"retention, an eased hold", (*Hold).Ease, func(d *Dir, l *Log) { retain(t, d, l, 0) }, 20},
		{"retention, a loose hold", (*Hold).Loosen, func(d *Dir, l *Log) { retain(t, d, l, 0) }, 20},
		{"a deletion, and a disk that lacks space", func(*Hold) {}, low, 0},
	} {
		for _, flushed := range []int{0, 12} {
			d := mustOpen(t, crashfs.New(1), "sync", func(o *Options) { o.RetentionInterval = time.Hour })
			l := makeLogs(t, d, 1, "sync")[0]
			l.Observe(idle{})
			put(t, l, flushed, 1000)
			if flushed > 0 {
				must(t, l.flushAll())
			}
			put(t, l, 20-flushed, 1000)
			h := l.Hold()
			c.weaken(h)
			c.remove(d, l)
			for at := range int64(20) {
				if s, err := h.Read(at, 20, 1000, true); err == nil && s.Size == 0 {
					t.Fatalf("%s, %d of 20 records in a segment: the hold of [%d, 20) has a hole at %d", c.what, flushed, h.First(), at)
				}
			}
			if h.First() != 20 || h.Expired() != c.expired {
				t.Errorf("%s, %d of 20 records in a segment: the hold starts at %d, and %d is expired", c.what, flushed, h.First(),
					h.Expired())
			}
			h.Release()
		}
	}
}

// A truncation below what was held is noted, and one above is not.
func TestAHoldNotesTruncations(t *testing.T) {
	d, l, h := heldLog(t)
	defer h.Release()
	truncate := func(x Truncation) {
		cuts := []Truncation{x}
		d.Truncate(cuts)
		must(t, cuts[0].Err)
	}
	truncate(Truncation{Log: l, End: 15})
	must(t, h.Kept(15))
	if err := h.Kept(16); !errors.Is(err, ErrNotHeld) || l.Changes() != 1 {
		t.Errorf("truncated to 15: %v, %d changes", err, l.Changes())
	}
	truncate(Truncation{Log: l, End: 100, Reset: true})
	if err := h.Kept(1); !errors.Is(err, ErrNotHeld) {
		t.Errorf("reset: %v", err)
	}
}

// While the disk lacks space, holds keep nothing.
func TestHoldsYieldToTheDisk(t *testing.T) {
	d, l, h := heldLog(t)
	defer h.Release()
	d.guard.last.Store(&Space{Level: diskguard.Low})
	moves := []StartMove{{Log: l, To: 18}}
	d.MoveStarts(moves)
	must(t, moves[0].Err)
	if h.First() < 10 || len(l.segments) > 2 {
		t.Errorf("held from %d on, %d segments", h.First(), len(l.segments))
	}
}

// Holds yield on a follower, too, and also if nothing else moves the log start.
func TestHoldsYieldToADiskThatFillsLater(t *testing.T) {
	for _, leads := range []bool{true, false} {
		d, l, h := heldLog(t, func(o *Options) { o.RetentionInterval = time.Hour })
		moves := []StartMove{{Log: l, To: 18}}
		d.MoveStarts(moves)
		must(t, moves[0].Err)
		l.SetLeaderEpoch(l.LeaderEpoch()+1, leads)
		if h.First() != 0 {
			t.Fatalf("held from %d on", h.First())
		}
		d.guard.last.Store(&Space{Level: diskguard.Low})
		d.applyRetention()
		eventually(t, "the segments are removed", func() bool { return h.First() >= 10 })
		h.Release()
	}
}
