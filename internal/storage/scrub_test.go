package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

const week = 7 * 24 * time.Hour

// sealed opens a directory, in virtual time, with a log of n sealed segments of a few records each.
func sealed(t *testing.T, errs *errfs.FS, n int) (*Dir, *Log) {
	t.Helper()
	d, err := openDir(errs, "sync", func(o *Options) { o.Cleaning.Scrub = week })
	must(t, err)
	l := makeLogs(t, d, 1, "sync")[0]
	for range n {
		put(t, l, 5, 900)
		must(t, l.roll())
	}
	return d, l
}

// A byte of a sealed segment that no client reads changes. It is found within the interval, and not
// read again before the next one.
func TestSealedSegmentsAreReadOnceInAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d, l := sealed(t, errs, 4)
		var reads atomic.Int64
		errs.Add(errfs.Rule{Ops: errfs.Read, Path: path.Join(l.path, "*.log"), Before: func(errfs.Call) { reads.Add(1) }})
		name := l.segments[2].Path()
		change(t, disk, name, 8, binary.BigEndian.AppendUint32(nil, 1<<30)) // the length of its first batch
		time.Sleep(week - time.Hour)
		synctest.Wait()
		if n := reads.Load(); n > 0 {
			t.Errorf("%d reads before a week has passed", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		n := reads.Load()
		if known := l.Damages(); len(known) != 1 || known[0].From != 10 || known[0].File != name || n < 4 {
			t.Errorf("after %d reads %+v is known", n, known)
		}
		time.Sleep(week - 4*time.Hour)
		synctest.Wait()
		if again := reads.Load(); again != n {
			t.Errorf("%d more reads within a week", again-n)
		}
		_ = d.Close()
	})
}

// A start continues where the last process stopped, also in the middle of a log, and a segment that
// cannot be read is tried again.
func TestReadingSegmentsContinuesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d, l := sealed(t, errs, 6)
		time.Sleep(week / 2)
		_ = d.Close()
		reopen := func() {
			var err error
			if d, err = openDir(errs, "sync", func(o *Options) { o.Cleaning.Scrub = week }); err != nil {
				t.Fatal(err)
			}
			l = d.Logs()[0]
		}
		reopen()
		failed := errs.Add(errfs.Rule{Ops: errfs.Open, Path: l.segments[3].Path(), Count: 2, Err: syscall.EIO})
		var first atomic.Int64
		errs.Add(errfs.Rule{Ops: errfs.Open, Path: l.segments[0].Path(), Before: func(errfs.Call) { first.Add(1) }})
		before := first.Load()
		time.Sleep(week/2 + 30*time.Minute)
		synctest.Wait()
		if failed.Hits() != 1 || first.Load() == before {
			t.Fatalf("half a week after the restart the first segment was opened %d times, the failing one %d times", first.Load()-before, failed.Hits())
		}
		if _, oldest := d.scrubDueTest(); d.now().Sub(oldest) < week {
			t.Errorf("a pass that failed counts: the oldest was read %v ago", d.now().Sub(oldest))
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if failed.Hits() != 2 {
			t.Errorf("it was tried %d times", failed.Hits())
		}
		_ = d.Close()
		reopen()
		if _, oldest := d.scrubDueTest(); d.now().Sub(oldest) > 5*time.Hour {
			t.Errorf("after the pass the oldest was read %v ago", d.now().Sub(oldest))
		}
		_ = d.Close()
	})
}

// scrubDueTest is scrubDue with what the last process saved.
func (d *Dir) scrubDueTest() (*Log, time.Time) {
	x := &Dir{opt: d.opt, path: d.path, list: d.Logs(), logs: d.logs}
	x.loadScrubbed()
	return x.scrubDue(d.now(), week)
}

// zeroFile is an endless file.
type zeroFile struct{ vfs.File }

// ReadAt implements vfs.File.
func (zeroFile) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// While clients use the disk, segments are read slowly, in small pieces. A stop does not wait.
func TestReadingSegmentsYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		d, l := sealed(t, errfs.New(disk), 1)
		f := &scrubFile{File: zeroFile{}, d: d}
		took := func() time.Duration {
			begin := time.Now()
			if n, err := f.ReadAt(make([]byte, 8<<20), 0); n != 8<<20 || err != nil {
				t.Fatal(n, err)
			}
			return time.Since(begin)
		}
		time.Sleep(time.Minute)
		if free := took(); free != 8*time.Second/64 {
			t.Errorf("8 MiB of a free disk take %v", free)
		}
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					put(t, l, 1, 10)
				}
			}
		}()
		time.Sleep(time.Second)
		if busy := took(); busy != 2*time.Second {
			t.Errorf("8 MiB of a busy disk take %v", busy)
		}
		close(stop)
		time.Sleep(time.Minute)
		ended := make(chan error)
		go func() {
			_, err := f.ReadAt(make([]byte, 128<<20), 0)
			ended <- err
		}()
		time.Sleep(time.Second)
		_ = d.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("a stop: %v", err)
		}
	})
}

// A compaction replaces a segment between its choice and its reading. The bytes of the segment that
// has its name then are no damage, and the goroutine continues.
func TestScrubOfAReplacedSegmentEnds(t *testing.T) {
	d, l := compactLog(t, crashfs.New(1), "sync")
	for i := range 60 {
		key := fmt.Sprint("key ", i%10)
		if i == 0 { // then the first segment remains
			key = "kept"
		}
		if a := send(l, keyed(t, key, strings.Repeat("v", 50+i), nil)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	flushedAndSynced(t, l)
	s, _ := l.sealedAt(0)
	compactAll(t, d)
	if now, _ := l.sealedAt(0); now == s || now.Path() != s.Path() {
		t.Fatalf("%s was not replaced", s.Path())
	}
	read := make(chan bool, 1)
	go func() { read <- d.scrubSegment(l, s) }()
	select {
	case ok := <-read:
		if !ok || l.Damaged() != nil || len(s.Flaws()) > 0 {
			t.Errorf("read: %t, damage: %v, %v", ok, l.Damaged(), s.Flaws())
		}
	case <-time.After(patience):
		t.Fatal("the reading does not end")
	}
}
