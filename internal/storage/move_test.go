package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// movable returns a manager of /a and /b whose only log is in /a.
func movable(t testing.TB, fsys vfs.FS, cfg Config) (*Manager, *Log) {
	t.Helper()
	m := mustManage(t, fsys, func(o *Options) { o.Config = func(string, ID) Config { return cfg } })
	m.dirs[1].guard.last.Store(&Space{Level: diskguard.Low})
	logs, err := m.Create([]Spec{{ID: scriptID, Topic: "t", Config: cfg}})
	m.dirs[1].guard.last.Store(&Space{})
	if err != nil {
		t.Fatal(err)
	}
	return m, lead(logs...)[0]
}

// movesTo moves the log to a directory.
func movesTo(t testing.TB, m *Manager, to *Dir) *Log {
	t.Helper()
	if err := m.BeginMove(context.Background(), scriptID, to); err != nil {
		t.Fatal(err)
	}
	return ran(t, m)
}

// ran completes a move.
func ran(t testing.TB, m *Manager) *Log {
	t.Helper()
	epoch := epochOf(m.Get(scriptID))
	l, err := m.RunMove(context.Background(), scriptID)
	if err != nil {
		t.Fatal(err)
	}
	l.SetLeaderEpoch(epoch, true)
	l.Observe(alone{l: l})
	return l
}

// namesOf returns the names of a directory that begin or end with a log's.
func namesOf(t testing.TB, fsys vfs.FS, dir string) (list []string) {
	t.Helper()
	infos, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range infos {
		if in.Name == "t-0" || strings.HasPrefix(in.Name, stem(scriptID)) {
			list = append(list, in.Name)
		}
	}
	return list
}

// A log that has moved has its records, transactions, producers, epochs and start, also after a
// start, and nothing is left of it in the former directory.
func TestAMoveTakesEverythingAlong(t *testing.T) {
	disk := crashfs.New(1)
	cfg := testConfig("sync")
	cfg.Segment.Bytes = 4 << 10
	m, l := movable(t, disk, cfg)
	interleave(t, l)
	must(t, l.roll())
	interleave(t, l)
	l.SetLeaderEpoch(7, true)
	put(t, l, 2, 10)
	must(t, l.SetLogStart(3))
	want, err := contentsOf(l)
	must(t, err)
	producers, end := fmt.Sprint(l.Producers()), l.Ends().LogEnd
	same := func(what string, now *Log) {
		t.Helper()
		got, err := contentsOf(now)
		must(t, err)
		if fmt.Sprint(got) != fmt.Sprint(want) || now.Ends().LogStart != 3 {
			t.Errorf("%s: %d batches from %d on, want %d", what, len(got), now.Ends().LogStart, len(want))
		}
		if epoch, at := now.EpochEnd(0); epoch != 0 || at != end-2 {
			t.Errorf("%s: epoch %d ends at %d", what, epoch, at)
		}
		if now := fmt.Sprint(now.Producers()); now != producers {
			t.Errorf("%s: producers %s, were %s", what, now, producers)
		}
		if err := readsCommitted(now, false); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	same("moved", movesTo(t, m, m.dirs[1]))
	if left := namesOf(t, disk, "/a"); len(left) > 0 && !IsDeletedName(left[0]) {
		t.Errorf("left: %v", left)
	}
	for what, image := range map[string]*crashfs.FS{"killed": disk.KillImage(1),
		"power loss": disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
		again := mustManage(t, image)
		same(what, again.Get(scriptID))
		if from := again.Get(scriptID).MovedFrom(); from != again.dirs[0].ID() {
			t.Errorf("%s: it was moved from %x", what, from)
		}
	}
	must(t, m.Close())
	m = mustManage(t, disk)
	lead(m.Get(scriptID))
	same("and back", movesTo(t, m, m.dirs[0]))
	if left := namesOf(t, disk, "/b"); len(left) > 0 && !IsDeletedName(left[0]) {
		t.Errorf("left: %v", left)
	}
}

// What happens to a log while it is copied also happens to the copy: it is truncated and gets other
// records, segments are removed at its start, and compacted.
func TestTheCopyFollowsTheLog(t *testing.T) {
	for what, happens := range map[string]func(*Log){
		"truncated": func(l *Log) {
			must(t, l.Truncate(7))
			put(t, l, 30, 700)
		},
		"truncated and as long as before": func(l *Log) {
			must(t, l.Truncate(l.Ends().LogEnd-2))
			put(t, l, 2, 710)
		},
		"reset":        func(l *Log) { must(t, l.Reset(500)); put(t, l, 3, 600) },
		"begins later": func(l *Log) { must(t, l.SetLogStart(25)); put(t, l, 1, 600) },
		"compacted": func(l *Log) {
			must(t, l.flushAndSync())
			l.Observe(idle{})
			compactAll(t, l.dir)
			l.Observe(alone{l: l})
		},
		"all of it is removed": func(l *Log) { must(t, l.SetLogStart(l.Ends().LogEnd)) },
	} {
		t.Run(what, func(t *testing.T) {
			disk := crashfs.New(1)
			m, l := movable(t, disk, compacted("sync"))
			set(t, l, 40, "a")
			set(t, l, 40, "b")
			l.Observe(alone{l: l})
			must(t, l.flushAndSync())
			must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
			x, _, err := m.startMove(scriptID)
			must(t, err)
			if _, err := m.copyPass(context.Background(), x, l, false); err != nil {
				t.Fatal(err)
			}
			x.running = nil
			x.to.operations.Done()
			l.dir.operations.Done()
			happens(l)
			want, err := contentsOf(l)
			must(t, err)
			end, start := l.Ends().LogEnd, l.Ends().LogStart
			ran(t, m)
			must(t, m.Close())
			m = mustManage(t, disk)
			now := m.Get(scriptID)
			got, err := contentsOf(now)
			must(t, err)
			if fmt.Sprint(got) != fmt.Sprint(want) || now.Ends().LogEnd != end || now.Ends().LogStart != start || now.dir != m.dirs[1] {
				t.Errorf("%d batches, %+v; want %d, [%d, %d)", len(got), now.Ends(), len(want), start, end)
			}
		})
	}
}

// Appends continue while a log is copied, and all that were acknowledged are in the new directory.
func TestAppendsDuringAMove(t *testing.T) {
	disk := crashfs.New(1)
	m, l := movable(t, disk, testConfig("sync"))
	put(t, l, 200, 10_000)
	var wg sync.WaitGroup
	acked, stop := int64(0), make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			a := send(l, testBatch(t, 1000, nil))
			if a.Err != nil {
				if !errors.Is(a.Err, ErrMoving) {
					t.Error(a.Err)
				}
				return
			}
			acked = a.Next // durable when the log moves away: the rest is flushed
		}
	})
	now := movesTo(t, m, m.dirs[1])
	close(stop)
	wg.Wait()
	if end := now.Ends().LogEnd; end != max(acked, 200) {
		t.Errorf("the log ends at %d, acknowledged was %d", end, acked)
	}
	put(t, now, 3, 10)
	holds(t, mustManage(t, disk.PowerLossImage(crashfs.DropUnsynced, 1)).Get(scriptID), max(acked, 200)+3)
}

// A move ends with a move to where the log is, and with the deletion of the log.
func TestAMoveIsCanceled(t *testing.T) {
	for what, cancel := range map[string]func(*Manager) error{
		"moved to where it is": func(m *Manager) error { return m.BeginMove(context.Background(), scriptID, m.dirs[0]) },
		"deleted":              func(m *Manager) error { return m.Delete(scriptID) },
		"replaced":             func(m *Manager) error { return m.Replace(scriptID) },
	} {
		disk := crashfs.New(1)
		m, l := movable(t, disk, testConfig("sync"))
		put(t, l, 5, 100)
		must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
		if n := len(m.Moves()); n != 1 {
			t.Fatalf("%s: %d moves", what, n)
		}
		must(t, cancel(m))
		if _, err := m.RunMove(context.Background(), scriptID); !errors.Is(err, ErrMoveCanceled) {
			t.Errorf("%s: %v", what, err)
		}
		if left := namesOf(t, disk, "/b"); len(left) > 0 || len(m.Moves()) > 0 {
			t.Errorf("%s: %v, %v", what, left, m.Moves())
		}
		must(t, m.Close())
		m = mustManage(t, disk)
		if now := m.Get(scriptID); (now != nil) != (what == "moved to where it is") || len(m.Moves()) > 0 {
			t.Errorf("%s: after a start: %v", what, now)
		}
	}
}

// A move that can no longer be canceled ends, and the log moves on from there.
func TestAMoveThatIsAlmostCompleteIsWaitedFor(t *testing.T) {
	disk := errfs.New(crashfs.New(1))
	m, l := movable(t, disk, testConfig("sync"))
	put(t, l, 5, 100)
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	begun, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	must(t, l.flushAndSync())
	disk.Add(errfs.Rule{Ops: errfs.Write, Path: "/a/checkpoint/*", // with the tombstone
		Before: func(errfs.Call) { once.Do(func() { close(begun) }); <-free }})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := m.RunMove(context.Background(), scriptID); err != nil {
			t.Error(err)
		}
	})
	<-begun
	if err := m.BeginMove(ended(), scriptID, m.dirs[0]); !errors.Is(err, ErrMoving) || !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended gets %v", err)
	}
	answer := make(chan error, 1)
	wg.Go(func() { answer <- m.BeginMove(context.Background(), scriptID, m.dirs[0]) })
	close(free)
	wg.Wait()
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	if l, moves := m.Get(scriptID), m.Moves(); l.dir != m.dirs[1] || len(moves) != 1 || moves[0].To != m.dirs[0] {
		t.Fatalf("it is in %s, and the moves are %+v", l.dir.path, moves)
	}
	if l := ran(t, m); l.dir != m.dirs[0] {
		t.Errorf("it is in %s", l.dir.path)
	}
}

// While a target hangs in the last step before the commit of a move, the source's directory can
// roll the log back, and the log is truncated, deleted and appended to.
func TestATargetThatHangsWhileAppendsWait(t *testing.T) {
	for what, happens := range map[string]func(*Manager, *Log) error{
		"truncated": func(_ *Manager, l *Log) error { return l.Truncate(2) },
		"deleted":   func(m *Manager, _ *Log) error { return m.Delete(scriptID) },
		"reverted":  func(_ *Manager, l *Log) error { l.revert(syscall.EIO); return nil },
		"closed":    func(_ *Manager, l *Log) error { return l.dir.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			disk := errfs.New(crashfs.New(1))
			m, l := movable(t, disk, testConfig("sync"))
			put(t, l, 5, 100)
			must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
			begun, free := make(chan struct{}), make(chan struct{})
			var once sync.Once
			disk.Add(errfs.Rule{Ops: errfs.Create, When: func(c errfs.Call) bool { return strings.Contains(c.Path, MoveFile) },
				Before: func(errfs.Call) { once.Do(func() { close(begun) }); <-free }})
			var now *Log
			var moveErr error
			var wg sync.WaitGroup
			wg.Go(func() { now, moveErr = m.RunMove(context.Background(), scriptID) })
			<-begun
			var ended atomic.Bool
			wg.Go(func() {
				if err := happens(m, l); err != nil {
					t.Error(err)
				}
				if a := send(l, testBatch(t, 100, nil)); what == "truncated" && a.Err != nil {
					t.Error(a.Err)
				}
				ended.Store(true)
			})
			eventually(t, what, ended.Load)
			close(free)
			wg.Wait()
			switch what {
			case "deleted":
				if !errors.Is(moveErr, ErrMoveCanceled) || m.Get(scriptID) != nil || len(namesOf(t, disk, "/b")) > 0 {
					t.Errorf("the move: %v, and the target has %v", moveErr, namesOf(t, disk, "/b"))
				}
			case "closed":
				if moveErr == nil {
					t.Error("a log has moved away from a closed directory")
				}
			default:
				must(t, moveErr)
				want := map[string]int64{"truncated": 3, "reverted": 6}[what]
				holds(t, now, want)
			}
		})
	}
}

// The deletion of a log that is between two directories fails, and does not hold up that of others.
func TestADeletionDuringTheLastStepsOfAMove(t *testing.T) {
	disk := errfs.New(crashfs.New(1))
	m, _ := movable(t, disk, testConfig("sync"))
	other, err := m.Create(specsOf('u', 1))
	must(t, err)
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	disk.Add(errfs.Rule{Ops: errfs.Write, Path: "/b/checkpoint/*", Err: syscall.EIO})
	if _, err := m.RunMove(context.Background(), scriptID); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the move: %v", err)
	}
	disk.Clear()
	for what, remove := range map[string]func(...ID) error{"deletion": m.Delete, "replacement": m.Replace} {
		if err := remove(scriptID, other[0].ID()); !errors.Is(err, ErrMoving) {
			t.Errorf("the %s: %v", what, err)
		}
		if m.Get(scriptID) == nil || m.Get(other[0].ID()) != nil {
			t.Errorf("after the %s: %v and %v", what, m.Get(scriptID), m.Get(other[0].ID()))
		}
		other, err = m.Create(specsOf('u', 1))
		must(t, err)
	}
	ran(t, m)
}

// A target that hangs when a move begins holds up no other log, and a second request for the same
// log waits no longer than its context.
func TestATargetThatHangsWhenAMoveBegins(t *testing.T) {
	disk := errfs.New(crashfs.New(1))
	m, _ := movable(t, disk, testConfig("sync"))
	m.dirs[1].guard.last.Store(&Space{Level: diskguard.Low})
	other, err := m.Create(specsOf('u', 1))
	must(t, err)
	m.dirs[1].guard.last.Store(&Space{})
	begun, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/b/" + FutureName(scriptID),
		Before: func(errfs.Call) { once.Do(func() { close(begun) }); <-free }})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.BeginMove(context.Background(), scriptID, m.dirs[1]); err != nil {
			t.Error(err)
		}
	})
	<-begun
	var left atomic.Int32
	left.Store(2)
	wg.Go(func() {
		if err := m.BeginMove(ended(), scriptID, m.dirs[0]); !errors.Is(err, ErrMoving) || !errors.Is(err, context.Canceled) {
			t.Errorf("a second request gets %v", err)
		}
		left.Add(-1)
	})
	wg.Go(func() {
		if err := m.BeginMove(context.Background(), other[0].ID(), m.dirs[1]); err != nil {
			t.Errorf("the move of another log: %v", err)
		}
		left.Add(-1)
	})
	eventually(t, "other requests are answered", func() bool { return left.Load() == 0 })
	close(free)
	wg.Wait()
	if n := len(m.Moves()); n != 2 {
		t.Errorf("%d moves", n)
	}
}

// A move that is canceled while it is about to run removes nothing of the next move to there.
func TestACanceledMoveThatBeginsToRun(t *testing.T) {
	disk := crashfs.New(1)
	m, l := movable(t, disk, testConfig("sync"))
	put(t, l, 1, 100)
	must(t, l.flushAndSync())
	for i := range 100 {
		must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := m.RunMove(ended(), scriptID); err == nil {
				t.Error("it has moved")
			}
		})
		must(t, m.BeginMove(context.Background(), scriptID, m.dirs[0]))
		must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
		wg.Wait()
		if left := namesOf(t, disk, "/b"); len(left) != 1 {
			t.Fatalf("round %d: the target has %v, and the moves are %+v", i, left, m.Moves())
		}
		must(t, m.BeginMove(context.Background(), scriptID, m.dirs[0]))
	}
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A log does not move to a directory in which another topic has its name. If that topic came after
// the move was committed, the copy, which is the only one, is not removed.
func TestAMoveToANamesake(t *testing.T) {
	namesake := Spec{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: testConfig("sync")}
	m, l := movable(t, crashfs.New(1), testConfig("sync"))
	put(t, l, 3, 100)
	_, err := m.dirs[1].Create([]Spec{namesake})
	must(t, err)
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	if _, err := m.RunMove(context.Background(), scriptID); !errors.Is(err, ErrMoveCanceled) {
		t.Errorf("the move: %v", err)
	}
	put(t, m.Get(scriptID), 1, 100)
	holds(t, m.Get(scriptID), 4)

	disk := committedIn(t)
	b, err := Open(ab[1:], Options{FS: disk, JournalFileSize: 64 << 10, JournalBytes: 256 << 10})
	must(t, err)
	_, err = b.Create([]Spec{namesake})
	must(t, err)
	must(t, b.Close())
	m = mustManage(t, disk)
	if m.Get(scriptID) != nil {
		t.Error("both have the name")
	}
	must(t, m.Delete(namesake.ID))
	must(t, m.Close())
	holds(t, mustManage(t, disk).Get(scriptID), 3)
}

// New logs are not made in a directory from which logs move, unless logs also move to there or no
// other directory can be used.
func TestNoLogIsMadeWhereLogsMoveAway(t *testing.T) {
	m := mustManage(t, crashfs.New(1))
	some, err := m.Create(specsOf('s', 6)) // three each
	must(t, err)
	move := func(l *Log, to int) { must(t, m.BeginMove(context.Background(), l.ID(), m.dirs[to])) }
	made := func(topic byte) *Dir {
		t.Helper()
		logs, err := m.Create(specsOf(topic, 1))
		must(t, err)
		must(t, m.Delete(logs[0].ID()))
		return logs[0].dir
	}
	var inA, inB []*Log
	for _, l := range some {
		if l.dir == m.dirs[0] {
			inA = append(inA, l)
		} else {
			inB = append(inB, l)
		}
	}
	must(t, m.Delete(inA[0].ID()))
	move(inA[1], 1)
	if made('t') != m.dirs[1] {
		t.Error("a log was made in the directory that is being emptied")
	}
	m.dirs[1].guard.last.Store(&Space{Level: diskguard.Low})
	if made('u') != m.dirs[0] {
		t.Error("a log was made in the directory without space")
	}
	m.dirs[1].guard.last.Store(&Space{})
	move(inB[0], 0)
	if made('v') != m.dirs[0] {
		t.Error("logs move both ways, and a log was not made where there are the fewest")
	}
}

// A log that does not exist yet is made where it is to move.
func TestALogIsMadeWhereItIsToMove(t *testing.T) {
	m := mustManage(t, crashfs.New(1))
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	logs, err := m.Create([]Spec{{ID: scriptID, Topic: "t", Config: testConfig("sync")}})
	must(t, err)
	if logs[0].dir != m.dirs[1] {
		t.Errorf("it is in %s", logs[0].dir.path)
	}
}

// Each call of a move fails once, and a failed sync leaves nothing of what it was to write, as does
// a file that is closed with bytes that were not synced. The log stays in use, or moves when the
// call works again; nothing is lost.
func TestI5AFaultAtEveryCallOfAMove(t *testing.T) {
	ops := []errfs.Op{errfs.Create, errfs.Write, errfs.Datasync, errfs.Rename, errfs.SyncDir, errfs.Mkdir, errfs.Read,
		errfs.SetModified, errfs.Writeback, errfs.Open, errfs.Remove, errfs.List, errfs.Stat, errfs.Truncate, errfs.Allocate, errfs.Size,
		errfs.Close, errfs.Free}
	for _, op := range ops {
		for _, dir := range []string{"/a", "/b"} {
			for failing := 1; ; failing++ {
				disk := crashfs.New(1)
				errs := errfs.New(disk)
				m, l := movable(t, errs, testConfig("sync"))
				put(t, l, 3, 100)
				must(t, l.roll())
				put(t, l, 3, 100)
				then, err := l.segments[0].Written()
				must(t, err)
				rule := errs.Add(errfs.Rule{Ops: op, From: failing, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached,
					When: func(c errfs.Call) bool { return strings.HasPrefix(c.Path, dir+"/") || c.Path == dir }})
				what := fmt.Sprintf("call %d of %v in %s", failing, op, dir)
				err = m.BeginMove(context.Background(), scriptID, m.dirs[1])
				for tries := 0; err != nil && tries < 3; tries++ {
					err = m.BeginMove(context.Background(), scriptID, m.dirs[1])
				}
				must(t, err)
				var now *Log
				eventually(t, what, func() bool { // a segment or a journal that failed is repaired
					now, err = m.RunMove(context.Background(), scriptID)
					return err == nil
				})
				eventually(t, what, func() bool { return now.Offline() == nil })
				rule.Off() // the calls of the reads and the append below are none of the move
				holds(t, now, 6)
				if at, err := now.segments[0].Written(); err != nil || op == errfs.SetModified && !at.Equal(then) {
					t.Errorf("%s: a segment of %v is of %v now: %v", what, then, at, err)
				}
				lead(now)
				put(t, now, 1, 10)
				holds(t, mustManage(t, disk.PowerLossImage(crashfs.DropUnsynced, 1)).Get(scriptID), 7)
				must(t, m.Close())
				if rule.Hits() == 0 {
					break
				}
			}
		}
	}
}

// The rate of moves does not hold up the rest, during which appends wait. The next copy waits for
// it.
func TestTheRestOfAMoveIsNotPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := movable(t, crashfs.New(1), testConfig("sync"))
		put(t, l, 3, 1000)
		m.SetMoveRate(1)
		began, moved := time.Now(), make(chan *Log)
		go func() { moved <- movesTo(t, m, m.dirs[1]) }()
		synctest.Wait()    // the copy takes most of an hour
		put(t, l, 3, 1000) // the rest
		now := <-moved
		if took := time.Since(began); took < 45*time.Minute || took > 75*time.Minute {
			t.Errorf("the move took %v", took)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, m.BeginMove(ctx, scriptID, m.dirs[0]))
		if _, err := m.RunMove(ctx, scriptID); !errors.Is(err, ErrClosed) {
			t.Errorf("a copy that is not paced: %v", err)
		}
		holds(t, now, 6)
		must(t, m.Close())
	})
}

// A directory without room for a log is not filled with a part of it, and the log stays in use.
func TestAMoveNeedsRoom(t *testing.T) {
	m, l := movable(t, crashfs.New(1), testConfig("sync"))
	put(t, l, 3, 1000)
	must(t, l.flushAndSync())
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	for _, s := range []Space{{Level: diskguard.Low, Known: true}, {Known: true, MinFree: 1000, Free: 2000}} {
		m.dirs[1].guard.last.Store(&s)
		if _, err := m.RunMove(context.Background(), scriptID); !errors.Is(err, ErrLowSpace) {
			t.Errorf("%+v: %v", s, err)
		}
		if x := m.Moves(); len(x) != 1 || !errors.Is(x[0].Err, ErrLowSpace) {
			t.Errorf("%+v: %+v", s, x)
		}
		put(t, l, 1, 1000)
	}
	m.dirs[1].guard.last.Store(&Space{})
	holds(t, ran(t, m), 5)
}

// committedIn returns a disk on which the process ended after the tombstone of a move was durable,
// and before the target had the log.
func committedIn(t testing.TB) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	m, l := movable(t, errs, testConfig("sync"))
	put(t, l, 3, 100)
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/b/checkpoint/*", Err: syscall.EIO})
	if _, err := m.RunMove(context.Background(), scriptID); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the move: %v", err)
	}
	if err := m.Delete(scriptID); !errors.Is(err, ErrMoving) {
		t.Errorf("a deletion of a log that is between two directories: %v", err)
	}
	return disk.KillImage(1)
}

// A start without one of the two directories of a move neither uses what may be old nor makes the
// log again, and a later start with both completes the move.
func TestAStartWithOneOfTwoDirectories(t *testing.T) {
	for _, missing := range []int{0, 1} {
		disk := committedIn(t)
		for range 2 {
			some := slices.Delete(slices.Clone(ab), missing, missing+1)
			m, err := Open(some, Options{FS: disk, JournalFileSize: 64 << 10, JournalBytes: 256 << 10})
			must(t, err)
			if l := m.Get(scriptID); l != nil {
				t.Errorf("without %s, %s has the log", ab[missing].Path, l.dir.path)
			}
			must(t, m.dirs[0].checkpoint(nil))
			must(t, m.Close())
		}
		m := mustManage(t, disk)
		l := m.Get(scriptID)
		if l == nil || l.dir.path != "/b" {
			t.Fatalf("without %s before: %v", ab[missing].Path, l)
		}
		holds(t, l, 3)
	}
}

// A start that completes a move may end at any call.
func TestPowerLossInAStartThatCompletesAMove(t *testing.T) {
	for at := 1; ; at++ {
		disk := committedIn(t)
		disk.CrashDuring(at)
		m, err := openManager(disk)
		if err == nil {
			_ = m.Close()
		}
		for _, mode := range crashfs.Modes() {
			m := mustManage(t, disk.PowerLossImage(mode, uint64(at)))
			l := m.Get(scriptID)
			if l == nil || l.dir.path != "/b" {
				t.Fatalf("call %d: %v, %v", at, l, m.Failed())
			}
			holds(t, l, 3)
			must(t, m.Close())
		}
		if !disk.Crashed() {
			return
		}
	}
}

// unnamedIn returns a disk on which the process ended before the copy of a log that has moved got
// the log's name.
func unnamedIn(t testing.TB) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	m, l := movable(t, errs, testConfig("sync"))
	put(t, l, 3, 100)
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	errs.Add(errfs.Rule{Ops: errfs.Rename, Path: "/b/" + FutureName(scriptID), Err: syscall.EIO})
	_, _ = m.RunMove(context.Background(), scriptID)
	return disk.KillImage(1)
}

// A fault in a start before the copy has the log's name takes nothing away: the log is used as soon
// as the fault is over.
func TestAFaultBeforeTheCopyHasTheNameOfTheLog(t *testing.T) {
	name := "/b/" + FutureName(scriptID)
	for what, rule := range map[string]errfs.Rule{
		"its entry can't be examined": {Ops: errfs.Stat | errfs.Open | errfs.Read, Path: name + "/" + MoveFile, Err: syscall.EIO},
		"it gets no name":             {Ops: errfs.Rename, Path: name, Err: syscall.EIO},
	} {
		t.Run(what, func(t *testing.T) {
			disk := unnamedIn(t)
			errs := errfs.New(disk)
			errs.Add(rule)
			m := mustManage(t, errs)
			if l := m.Get(scriptID); l == nil || l.Offline() == nil {
				t.Fatalf("the log is %v", l)
			}
			errs.Clear()
			eventually(t, "the log is in use", func() bool { return m.Get(scriptID).Offline() == nil })
			holds(t, m.Get(scriptID), 3)
			must(t, m.Close())
			holds(t, mustManage(t, disk).Get(scriptID), 3)
		})
	}
}

// A start that can't complete a move does not let the log be created elsewhere, whether the log is
// in the target already or not.
func TestALogThatHasMovedIsNotCreatedAgain(t *testing.T) {
	for what, rule := range map[string]errfs.Rule{
		"its name can't be examined":  {Ops: errfs.Stat, Path: "/b/t-0", Err: syscall.EIO},
		"the copy can't get the name": {Ops: errfs.Rename, Path: "/b/" + FutureName(scriptID), Err: syscall.EIO},
		"its files can't be listed":   {Ops: errfs.List, Path: "/b/t-0", Err: syscall.EIO},
		"its entry can't be read": {Ops: errfs.Open | errfs.Read, Path: "/b/" + FutureName(scriptID) + "/" + MoveFile,
			Err: syscall.EIO},
	} {
		t.Run(what, func(t *testing.T) {
			disk := committedIn(t)
			errs := errfs.New(disk)
			errs.Add(rule)
			m := mustManage(t, errs)
			if _, err := m.Create([]Spec{{ID: scriptID, Topic: "t", Config: testConfig("sync")}}); err == nil {
				t.Error("it was created again")
			}
			errs.Clear()
			if m.Get(scriptID) != nil {
				eventually(t, "the log is in use", func() bool { return m.Get(scriptID).Offline() == nil })
				holds(t, m.Get(scriptID), 3)
			}
			must(t, m.Close())
			m = mustManage(t, disk)
			if failed := m.Failed(); len(failed) > 0 {
				t.Fatal(failed[0])
			}
			holds(t, m.Get(scriptID), 3)
		})
	}
}

// The entry next to a copy may be damaged: if the checkpoint lists the log, it is not needed, and
// otherwise the copy may be the log and is not removed.
func TestADamagedEntryNextToACopy(t *testing.T) {
	name := "/b/" + FutureName(scriptID)
	disk := unnamedIn(t)
	must(t, vfs.WriteFile(disk, name+"/"+MoveFile, []byte("x"), true))
	holds(t, mustManage(t, disk).Get(scriptID), 3)
	disk = committedIn(t)
	must(t, vfs.WriteFile(disk, name+"/"+MoveFile, []byte("x"), true))
	must(t, mustManage(t, disk).Close())
	if left := namesOf(t, disk, "/b"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// The directory of a copy is known by its name, which no partition has.
func TestNamesOfAMove(t *testing.T) {
	name := FutureName(scriptID)
	if id, is := futureID(name); !is || id != scriptID || !IsFutureName(name) || IsFutureName("a"+name) ||
		IsFutureName(path.Join(name, "x")) {
		t.Errorf("%s is %v", name, id)
	}
}
