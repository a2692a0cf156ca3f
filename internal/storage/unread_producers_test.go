package storage

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// openSinceRemoved returns a log whose first segment was removed. A transaction began there, which
// only the snapshots of the four other segments say, and was aborted in the last but one. The index
// of that segment is read from its file.
func openSinceRemoved(t *testing.T) (*crashfs.FS, *errfs.FS, *Log) {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	l := makeLogs(t, mustOpen(t, errs, "sync"), 1, "sync")[0]
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	for range 3 {
		put(t, l, 1, 10)
		must(t, l.roll())
	}
	put(t, l, 1, 10)
	ok(t, endTxn(l, 7, 1, record.Abort, producers.Sender{Bumps: true}))
	synced(t, l)
	must(t, errors.Join(l.flushAndSync(), l.roll(), l.SetLogStart(l.segments[1].Base())))
	put(t, l, 1, 10)
	synced(t, l)
	must(t, l.flushAndSync())
	if len(l.segments) != 4 {
		t.Fatalf("%d segments", len(l.segments))
	}
	return disk, errs, l
}

// abortedBy returns what a reader of the aborted transaction's marker learns.
func abortedBy(t *testing.T, l *Log) ([]txnindex.Entry, error) {
	t.Helper()
	from := l.segments[2].Base()
	s, err := l.Read(from, l.segments[3].Base(), math.MaxInt, true)
	must(t, err)
	defer s.Release()
	return l.AbortedIn(from, &s, 100)
}

// The index of aborted transactions can't be read. It is not replaced by one that lacks a
// transaction, of which only a snapshot knows that can't be read either.
func TestAnIndexIsNotBuiltWithoutSnapshotsThatExist(t *testing.T) {
	const index, snapshots = "*" + segment.AbortedSuffix, "*" + segment.ProducersSuffix
	for name, c := range map[string]struct {
		paths []string
		err   error
		built bool // the answer is right nevertheless
	}{
		"no descriptors":              {[]string{index, snapshots}, syscall.EMFILE, false},
		"a disk that fails":           {[]string{index, snapshots}, syscall.EIO, false},
		"no descriptor for the index": {[]string{index}, syscall.EMFILE, false},
		"an index that is damaged":    {[]string{index}, syscall.EIO, true},
	} {
		disk, errs, l := openSinceRemoved(t)
		want, err := abortedBy(t, l)
		if err != nil || len(want) != 1 || want[0].First != 0 {
			t.Fatalf("%s: before: %+v, %v", name, want, err)
		}
		for _, p := range c.paths {
			errs.Add(errfs.Rule{Ops: errfs.Open, Path: p, Err: c.err})
		}
		if list, err := abortedBy(t, l); c.built != (err == nil) || c.built && !slices.Equal(list, want) ||
			!c.built && (!errors.Is(err, ErrFailed) || !errors.Is(err, c.err)) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		errs.Clear()
		must(t, errors.Join(l.flushAndSync(), l.dir.checkpoint(nil)))
		for _, l := range []*Log{l, mustOpen(t, disk.KillImage(1), "sync").Logs()[0]} {
			if list, err := abortedBy(t, l); err != nil || !slices.Equal(list, want) {
				t.Errorf("%s: afterwards: %+v, %v", name, list, err)
			}
		}
	}
}

// A truncation that can't read the snapshots has failed, and is repeated. It does not forget the
// transaction of which the marker goes.
func TestATruncationWithoutSnapshotsThatExistFails(t *testing.T) {
	_, errs, l := openSinceRemoved(t)
	end, marker := l.Ends().LogEnd, l.segments[3].Base()-1
	errs.Add(errfs.Rule{Ops: errfs.Open, Path: "*" + segment.ProducersSuffix, Err: syscall.EMFILE})
	if err := l.Truncate(marker); !errors.Is(err, syscall.EMFILE) || l.Ends().LogEnd != end {
		t.Errorf("truncated: %v, %+v", err, l.Ends())
	}
	errs.Clear()
	must(t, l.Truncate(marker))
	if p, known := l.Producer(7); !known || p.First != 0 {
		t.Errorf("it is open since %d, %v", p.First, known)
	}
}

// A snapshot that exists is not replaced by another one before the segments go that it continues.
// Only if the machine is short of descriptors the segments stay until it can be read.
func TestASnapshotThatCannotBeReadStays(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.EIO} {
		_, errs, l := openSinceRemoved(t)
		marker := l.segments[3].Base() - 1
		errs.Add(errfs.Rule{Ops: errfs.Open, Path: "*" + segment.ProducersSuffix, Err: cause})
		start := l.segments[2].Base()
		if err := l.SetLogStart(start); shortage(cause) != (err != nil) || err != nil && !errors.Is(err, ErrFailed) {
			t.Errorf("%v: the start moves: %v", cause, err)
		}
		errs.Clear()
		must(t, l.SetLogStart(start))
		must(t, l.Truncate(marker))
		if p, known := l.Producer(7); !known || p.First != 0 {
			t.Errorf("%v: it is open since %d, %v", cause, p.First, known)
		}
	}
}
