package storage

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// refusedStart returns a directory of two logs with 11 records each. Its start could not use the
// files of the first one. If unclean, the last records of that log are in quarantine.
func refusedStart(t *testing.T, op errfs.Op, refused error, unclean bool) (*Dir, *Log, *errfs.FS, *crashfs.FS) {
	t.Helper()
	unswept := func(o *Options) { o.JournalBytes = 1 << 20 }
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", unswept)
	for _, l := range makeLogs(t, d, 2, "sync") {
		put(t, l, 4, 700)
		must(t, l.flushAndSync())
	}
	must(t, d.checkpoint(nil))
	for _, l := range d.Logs() {
		put(t, l, 5, 3000)
		_ = l.flush()
		a := send(l, testBatch(t, 100, &record.Producer{ID: 7}))
		must(t, a.Err)
		put(t, l, 1, 100)
	}
	if !unclean {
		must(t, d.Close())
	}
	disk = disk.PowerLossImage(crashfs.KeepSectors, 1)
	errs := errfs.New(disk)
	for _, p := range []string{"/d/t-0", "/d/t-0/*"} {
		errs.Add(errfs.Rule{Ops: op, Path: p, Err: refused})
	}
	d = mustOpen(t, errs, "sync", unswept)
	l := byPartition(t, d, 0)
	if l.Offline() == nil {
		t.Skipf("%v, unclean %t: the log does not need its files", op, unclean)
	}
	return d, l, errs, disk
}

// A log whose files a start could not use is opened as soon as they can be used, with all that it
// had, and is in use as after a start.
func TestALogThatAStartCouldNotReadIsOpenedLater(t *testing.T) {
	t.Parallel()
	for _, unclean := range []bool{false, true} {
		for name, op := range map[string]errfs.Op{
			"list": errfs.List, "open": errfs.Open, "create": errfs.Create, "write": errfs.Write, "datasync": errfs.Datasync,
			"truncate": errfs.Truncate, "any": errfs.Any,
		} {
			t.Run(name, func(t *testing.T) {
				d, l, errs, disk := refusedStart(t, op, syscall.EIO, unclean)
				put(t, byPartition(t, d, 1), 3, 2000)
				errs.Clear()
				eventually(t, "the log is opened", func() bool { return l.Err() == nil })
				holds(t, l, 11)
				var a *Append
				eventually(t, "a leader without other replicas resumes its epoch", func() bool {
					a = send(l, testBatch(t, 100, &record.Producer{ID: 7}))
					return !errors.Is(a.Err, ErrFencedEpoch)
				})
				if a.Err != nil || !a.Duplicate || a.Base != 9 {
					t.Errorf("a repeated batch: %+v, unclean %t", a, unclean)
				}
				put(t, l, 2, 100)
				holds(t, l, 13)
				if left := framesIn(t, disk); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				holds(t, byPartition(t, mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 2), "sync"), 0), 13)
				must(t, d.Close())
				d = mustOpen(t, disk, "sync")
				if !d.Clean() {
					t.Error("the stop does not count as clean")
				}
				holds(t, byPartition(t, d, 0), 13)
				holds(t, byPartition(t, d, 1), 14)
			})
		}
	}
}

// A loss of power at any call of that leaves what the next start opens.
func TestThePowerFailsWhileALogIsOpenedLater(t *testing.T) {
	for _, unclean := range []bool{false, true} {
		for at, ended := 1, false; !ended; at++ {
			d, l, errs, disk := refusedStart(t, errfs.List, syscall.EIO, unclean)
			errs.Clear()
			notJournal := func(c errfs.Call) bool { return !strings.Contains(c.Path, "journal") }
			fails := errs.Add(errfs.Rule{From: at, Err: syscall.EIO, When: notJournal})
			eventually(t, "it is opened, or the disk fails", func() bool {
				ended = l.Err() == nil
				return ended || fails.Hits() > 0
			})
			image := disk.PowerLossImage(crashfs.DropUnsynced, uint64(at))
			holds(t, byPartition(t, mustOpen(t, image, "sync"), 0), 11)
			_ = d.Close()
		}
	}
}

// A leader whose log is opened later does not continue in its epoch: the log ended elsewhere when
// the epoch began.
func TestALogThatIsOpenedLaterNeedsANewEpoch(t *testing.T) {
	_, l, errs, _ := refusedStart(t, errfs.List, syscall.EIO, true)
	l.Observe(noopObserver{}) // there are other replicas
	epoch := l.LeaderEpoch()
	errs.Clear()
	eventually(t, "the log is opened", func() bool { return l.Err() == nil })
	if a := send(l, testBatch(t, 100, nil)); !errors.Is(a.Err, ErrFencedEpoch) {
		t.Errorf("an append in epoch %d: %v", epoch, a.Err)
	}
	l.SetLeaderEpoch(epoch+1, true)
	put(t, l, 1, 100)
	holds(t, l, 12)
}

// What is found to be wrong then stays offline, as what a start finds.
func TestALogThatIsDamagedWhenItIsOpenedLater(t *testing.T) {
	d, l, errs, disk := refusedStart(t, errfs.List, syscall.EIO, true)
	infos, err := disk.List("/d/t-0")
	must(t, err)
	for _, in := range infos {
		if strings.HasSuffix(in.Name, ".log") {
			must(t, disk.Remove("/d/t-0/"+in.Name))
		}
	}
	errs.Clear()
	eventually(t, "the damage is found", func() bool { return l.state() == loglife.Damaged })
	if !slices.Contains(d.Flawed(), l) {
		t.Error("the log is not among the damaged ones")
	}
	put(t, byPartition(t, d, 1), 1, 100)
	if d = mustOpen(t, disk.KillImage(1), "sync"); byPartition(t, d, 0).state() != loglife.Damaged {
		t.Error("a start does not know it")
	}
}

// A log that is offline can be deleted at any moment, and made again.
func TestALogIsDeletedWhileItIsOpenedLater(t *testing.T) {
	for range 20 {
		d, l, errs, disk := refusedStart(t, errfs.List, syscall.EIO, true)
		errs.Clear()
		must(t, d.Delete(l))
		again, err := d.Create([]Spec{{ID: l.id, Topic: l.topic, Config: testConfig("sync")}})
		must(t, err)
		lead(again...)
		put(t, again[0], 3, 100)
		holds(t, again[0], 3)
		if l.Err() == nil || !errors.Is(l.Err(), ErrClosed) {
			t.Errorf("the deleted log: %v", l.Err())
		}
		holds(t, byPartition(t, mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 2), "sync"), 0), 3)
		must(t, d.Close())
	}
}

// readingObserver calls a function for each Advanced.
type readingObserver struct {
	noopObserver
	advanced func()
}

func (o readingObserver) Advanced() { o.advanced() }

// The ends of a log that is offline lack what its quarantine file has. They count as soon as it
// serves records, and the observer knows them before: who reads them then finds a high watermark
// that covers all records.
func TestEndsOfALogThatIsOfflineDoNotCount(t *testing.T) {
	if err := endsWhileOpenedLater(t, 0); err != nil {
		t.Error(err)
	}
}

func endsWhileOpenedLater(t *testing.T, without rule) error {
	_, l, errs, _ := refusedStart(t, errfs.List, syscall.EIO, true)
	l.dir.opt.broken = broken{rules: breakrules.Without(without)}
	var known atomic.Int64
	l.Observe(readingObserver{advanced: func() { known.Store(l.Ends().Durable) }})
	ends := func() (served bool, err error) {
		e, offline := l.Readable()
		if offline == nil && (e.LogEnd != 11 || e.Durable != 11 || known.Load() != 11) {
			err = fmt.Errorf("a log that serves 11 records ends at %+v, and its observer knows %d", e, known.Load())
		}
		return offline == nil, err
	}
	if served, err := ends(); served {
		return cmp.Or(err, errors.New("the ends of a log that is offline count"))
	}
	errs.Clear()
	for {
		if served, err := ends(); served {
			return err
		}
		runtime.Gosched()
	}
}
