package segment

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

func fresh(t *testing.T, base int64) *Segment {
	t.Helper()
	fs := vfs.Memory()
	ok(t, fs.MkdirAll("/s"))
	files := NewFiles(fs, 100)
	t.Cleanup(func() { _ = files.Close() })
	s, err := Create(files, "/s", base, 0)
	ok(t, err)
	return s
}

func appendAt(t *testing.T, s *Segment, ts int64) {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{BaseOffset: s.base})
	b.Append(ts, nil, []byte("v"), nil)
	data, err := b.Build()
	ok(t, err)
	ok(t, s.Append([][]byte{data}, 4096))
}

// The jitter differs between segments, stays within segment.jitter.ms and segment.ms, and does not
// change.
func TestJitter(t *testing.T) {
	lim := Limits{Ms: 1000, JitterMs: 400}
	seen := map[int64]bool{}
	for i := range int64(100) {
		s := fresh(t, i)
		ms := s.RollMs(lim)
		if ms < 600 || ms > 1000 || ms != s.RollMs(lim) {
			t.Errorf("rolls after %d ms of %+v", ms, lim)
		}
		seen[ms] = true
		if ms := s.RollMs(Limits{Ms: 1000}); ms != 1000 {
			t.Errorf("without jitter: %d", ms)
		}
		if ms := s.RollMs(Limits{Ms: 1000, JitterMs: math.MaxInt64}); ms < 0 || ms > 1000 {
			t.Errorf("with more jitter than age: %d", ms)
		}
		if ms := s.RollMs(Limits{Ms: math.MaxInt64, JitterMs: math.MaxInt64}); ms < 0 {
			t.Errorf("with the largest values: %d", ms)
		}
	}
	if len(seen) < 50 {
		t.Errorf("100 segments roll at %d moments", len(seen))
	}
}

// As in Kafka, the age is measured from the first record's timestamp to that of the next record. If
// the first record has no timestamp, it is measured by the clock.
func TestFullByAge(t *testing.T) {
	lim := Limits{Bytes: 1 << 20, Ms: 1000, IndexBytes: 1 << 20}
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, 7)
		if s.Full(lim, 1, 8, 1<<40) {
			t.Error("an empty segment is full")
		}
		appendAt(t, s, 5000)
		for ts, full := range map[int64]bool{-1: false, 0: false, 5000: false, 6000: false, 6001: true, 1 << 60: true} {
			if s.Full(lim, 1, 8, ts) != full {
				t.Errorf("full at %d: %v", ts, !full)
			}
		}
		jitter := lim
		jitter.JitterMs = 900
		if ms := s.RollMs(jitter); s.Full(jitter, 1, 8, 5000+ms) || !s.Full(jitter, 1, 8, 5001+ms) {
			t.Errorf("no roll after %d ms", ms)
		}
		time.Sleep(time.Hour)
		if s.Full(lim, 1, 8, 6000) {
			t.Error("the clock counts although there are timestamps")
		}
		none := fresh(t, 7)
		appendAt(t, none, -1)
		again := Open(none.files, "/s", 7, none.Size())
		for i, s := range []*Segment{none, again} {
			if first, ok := s.First(); first != -1 || !ok {
				t.Errorf("%d: first timestamp %d, %v", i, first, ok)
			}
			if s.Full(lim, 1, 8, 1<<60) {
				t.Errorf("%d: full at once without a timestamp to count from", i)
			}
		}
		time.Sleep(1001 * time.Millisecond)
		for i, s := range []*Segment{none, again} {
			if !s.Full(lim, 1, 8, -1) {
				t.Errorf("%d: not full after its time without timestamps", i)
			}
		}
	})
}

// A retired segment leaves one file, whose name is not that of a segment. Current readers continue;
// later ones find nothing.
func TestRetire(t *testing.T) {
	s := fresh(t, 7)
	appendAt(t, s, 5000)
	ok(t, s.Seal())
	h, err := s.files.acquire(s.Path(), false)
	ok(t, err)
	names := func() (names []string) {
		infos, err := s.files.fs.List("/s")
		ok(t, err)
		for _, in := range infos {
			names = append(names, in.Name)
		}
		return names
	}
	ok(t, s.Retire())
	if got := names(); len(got) != 1 || !IsDeleted(got[0]) {
		t.Errorf("left: %q", got)
	}
	if _, ok := ParseName(names()[0]); ok {
		t.Errorf("%q is a segment's name", names()[0])
	}
	var b [10]byte
	if _, err := h.f.ReadAt(b[:], 0); err != nil {
		t.Errorf("current reader: %v", err)
	}
	s.files.release(h)
	if _, err := s.Read(7, 8, 100, true); err == nil {
		t.Error("the file can still be opened")
	}
	for range 2 { // the second time, no file is left
		if err := s.RemoveRetired(); err != nil || len(names()) != 0 {
			t.Errorf("left: %q, %v", names(), err)
		}
		if err := s.Retire(); err != nil {
			t.Error(err)
		}
	}
}

// Newest needs no disk I/O once it has found its answer, whatever happens to the index.
func TestNewestIsFoundOnce(t *testing.T) {
	s := fresh(t, 7)
	appendAt(t, s, 5000)
	ok(t, s.Seal())
	again := Open(s.files, "/s", 7, s.Size())
	if ts, err := again.Newest(); ts != 5000 || err != nil {
		t.Errorf("%d, %v", ts, err)
	}
	again.files.forget(again.Path())
	ok(t, again.files.fs.RemoveAll("/s"))
	if ts, err := again.Newest(); ts != 5000 || err != nil {
		t.Errorf("the second time: %d, %v", ts, err)
	}
}
