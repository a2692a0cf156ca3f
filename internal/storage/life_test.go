package storage

import (
	"fmt"
	"maps"
	"path"
	"sync"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/states"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/vfstest"
)

// lived records which events changed which states.
type lived struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (v *lived) watch(o *Options) {
	o.JournalBytes = 1 << 20
	o.answered = func(state, event fmt.Stringer, a states.Answer) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if a == states.Moved {
			v.seen[fmt.Sprintf("%T %v: %v", state, state, event)] = true
		}
	}
}

func (v *lived) saw(s, e fmt.Stringer) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen[fmt.Sprintf("%T %v: %v", s, s, e)]
}

// await waits until an event has changed a log's state.
func (v *lived) await(t testing.TB, s loglife.State, e loglife.Event) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v: %v", s, e), func() bool { return v.saw(s, e) })
}

// stage is a directory on a disk that can fail.
type stage struct {
	*testing.T
	v    *lived
	disk *crashfs.FS
	errs *errfs.FS
	d    *Dir
	l    *Log
}

func (v *lived) stage(t *testing.T) *stage {
	disk := crashfs.New(1)
	s := &stage{T: t, v: v, disk: disk, errs: errfs.New(disk)}
	s.d = mustOpen(t, s.errs, "sync", v.watch)
	s.l = makeLogs(t, s.d, 1, "sync")[0]
	return s
}

// compacting returns a stage whose log has segments that a compaction would replace.
func (v *lived) compacting(t *testing.T, change ...func(*Options)) *stage {
	disk := crashfs.New(1)
	s := &stage{T: t, v: v, disk: disk, errs: errfs.New(disk)}
	s.d, s.l = compactLog(t, s.errs, "sync", append(change, v.watch, func(o *Options) { o.Cleaning.Backoff = 1 << 60 })...)
	set(t, s.l, 100, "a")
	set(t, s.l, 10, "b")
	return s
}

// Calls that scenes make fail.
var (
	segmentCalls = errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create, Path: "/d/t-0/*.log", Err: syscall.EIO,
		Drop: errfs.DropCached}
	framesCalls = errfs.Rule{Ops: errfs.Create, Path: "*.frames", Err: syscall.EIO}
	placeCalls  = errfs.Rule{Ops: errfs.Rename, Path: "*.swap", From: 2, Err: syscall.EIO} // the first rename gives it that name
	commitCalls = errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint*/*", Err: syscall.EIO}
)

// hold blocks the next call that matches a rule. It returns when the call is blocked, with a
// function that releases it.
func (s *stage) hold(r errfs.Rule) (waits func(), end func()) {
	gate, let := gated(s)
	r.Before, r.Err, r.Count = func(errfs.Call) { <-gate }, nil, 1
	f := s.errs.Add(r)
	return func() {
		s.Helper()
		eventually(s, "the call is held", func() bool { return f.Hits() > 0 })
	}, let
}

// end deletes the log in a state that must last until then.
func (s *stage) end(in loglife.State) {
	s.Helper()
	_ = s.d.Delete(s.l) // the planned fault may make the commit fail
	if !s.v.saw(in, loglife.Deletion) {
		s.Errorf("the log was not %v when it was deleted", in)
	}
}

// ruinJournal makes the contents of the journal's files unreadable, and evicts the log's cache.
func (s *stage) ruinJournal() {
	s.Helper()
	infos, err := s.disk.List("/d/journal")
	if err != nil {
		s.Fatal(err)
	}
	for _, in := range infos {
		if path.Ext(in.Name) != ".journal" || in.Size <= 8192 {
			continue
		}
		f, err := s.disk.Open("/d/journal/" + in.Name)
		if err != nil {
			s.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, in.Size-8192), 8192); err != nil {
			s.Fatal(err)
		}
		_ = f.Close()
	}
	s.d.memory.evictCached([]*Log{s.l})
}

// failing makes the last segment fail while it holds unsynced records.
func (s *stage) failing() *errfs.Fault {
	s.Helper()
	put(s, s.l, 2, 900)
	if err := s.l.flush(); err != nil {
		s.Fatal(err)
	}
	put(s, s.l, 2, 900)
	f := s.errs.Add(segmentCalls)
	_ = s.l.sync()
	return f
}

// swap runs a compaction whose swap does not finish.
func (s *stage) swap() {
	s.Helper()
	s.errs.Add(placeCalls)
	if !s.d.compactNext() {
		s.Fatal("nothing was due")
	}
	s.v.await(s, loglife.Swapping, loglife.SwapFailed)
}

// inSegments appends records and writes them to a segment without syncing it.
func (s *stage) inSegments() {
	s.Helper()
	put(s, s.l, 2, 50)
	if err := s.l.flush(); err != nil {
		s.Fatal(err)
	}
}

// A scene takes a log through transitions of the table.
type scene func(*testing.T, *lived)

func plain(play func(*stage)) scene { return func(t *testing.T, v *lived) { play(v.stage(t)) } }

func compacting(play func(*stage)) scene {
	return func(t *testing.T, v *lived) { play(v.compacting(t)) }
}

func repairs() map[string]scene {
	return map[string]scene{
		"a segment fails and is replayed": plain(func(s *stage) {
			s.failing()
			s.v.await(s, loglife.Failing, loglife.FramesQuarantined)
			s.errs.Clear()
			s.errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/t-0/*.log", Count: 1, Err: syscall.EIO})
			s.v.await(s, loglife.Quarantined, loglife.SegmentFailed)
			s.v.await(s, loglife.Quarantined, loglife.Replayed)
			s.v.await(s, loglife.Failing, loglife.Mended)
			holds(s, s.l, 4)
			s.end(loglife.Online)
		}),
		"a log is deleted while it is quarantined": plain(func(s *stage) {
			s.failing()
			s.v.await(s, loglife.Failing, loglife.FramesQuarantined)
			s.end(loglife.Quarantined)
		}),
		"a quarantine file is damaged": plain(func(s *stage) {
			s.failing()
			s.v.await(s, loglife.Failing, loglife.FramesQuarantined)
			change(s.T, s.disk, "/d/"+framesIn(s.T, s.disk)[0], 100, []byte{0xde, 0xad, 0xbe, 0xef})
			s.errs.Clear()
			s.v.await(s, loglife.Quarantined, loglife.FoundDamaged)
			s.end(loglife.Damaged)
		}),
		"the next segment cannot be made": plain(func(s *stage) {
			cfg := testConfig("sync")
			cfg.Segment.Bytes = 1000
			s.l.Configure(cfg)
			put(s, s.l, 1, 900)
			_ = s.l.flush()
			s.errs.Add(framesCalls)
			s.errs.Add(errfs.Rule{Ops: errfs.Create, Path: "/d/t-0/*.log", Err: syscall.ENOSPC})
			put(s, s.l, 1, 900)
			_ = s.l.flush()
			s.v.await(s, loglife.Failing, loglife.SegmentFailed)
			s.end(loglife.Failing)
		}),
		"segment and journal lose records": plain(func(s *stage) {
			s.errs.Add(framesCalls)
			s.failing()
			s.ruinJournal()
			s.errs.Clear()
			s.v.await(s, loglife.Failing, loglife.FoundDamaged)
			s.end(loglife.Damaged)
		}),
	}
}

func truncations() map[string]scene {
	return map[string]scene{
		"a truncation takes time": plain(func(s *stage) {
			put(s, s.l, 4, 100)
			if err := s.l.Truncate(3); err != nil {
				s.Fatal(err)
			}
			f := s.errs.Add(commitCalls)
			_ = s.l.Truncate(2)
			s.v.await(s, loglife.CutStuck, loglife.CutFailed)
			f.Off()
			s.v.await(s, loglife.CutStuck, loglife.CutDone)
			holds(s, s.l, 2)
		}),
		"a truncation is committed, and the files cannot be cut": plain(func(s *stage) {
			put(s, s.l, 4, 100)
			if err := s.l.flushAndSync(); err != nil {
				s.Fatal(err)
			}
			s.errs.Add(errfs.Rule{Ops: errfs.SyncDir | errfs.List, Path: "/d/t-0", Err: syscall.EIO}) // nor read again
			_ = s.l.Truncate(2)
			s.v.await(s, loglife.Cutting, loglife.Unreadable)
			s.end(loglife.Offline)
		}),
		"the same at the second attempt": plain(func(s *stage) {
			put(s, s.l, 4, 100)
			f := s.errs.Add(commitCalls)
			_ = s.l.Truncate(2)
			s.errs.Add(errfs.Rule{Ops: errfs.SyncDir, Path: "/d/t-0", Err: syscall.EIO})
			f.Off()
			s.v.await(s, loglife.CutStuck, loglife.Unreadable)
		}),
		"a log is deleted while its truncation is stuck": plain(func(s *stage) {
			put(s, s.l, 4, 100)
			s.errs.Add(commitCalls)
			_ = s.l.Truncate(2)
			s.v.await(s, loglife.Cutting, loglife.CutFailed)
			s.end(loglife.CutStuck)
		}),
		"a log is deleted while it is truncated": plain(func(s *stage) {
			put(s, s.l, 4, 100)
			waits, goOn := s.hold(commitCalls)
			defer goOn()
			cut, deleted := make(chan error, 1), make(chan error, 1)
			go func() { cut <- s.l.Truncate(2) }()
			waits()
			go func() { deleted <- s.d.Delete(s.l) }()
			s.v.await(s, loglife.Cutting, loglife.Deletion)
			goOn()
			if a, b := <-cut, <-deleted; a == nil || b != nil {
				s.Errorf("truncated: %v, deleted: %v", a, b)
			}
		}),
	}
}

func swaps() map[string]scene {
	return map[string]scene{
		"segments are swapped": compacting(func(s *stage) { compactAll(s, s.d) }),
		"a swap is stuck": compacting(func(s *stage) {
			s.swap()
			s.v.await(s, loglife.SwapStuck, loglife.SwapFailed)
			s.errs.Clear()
			s.v.await(s, loglife.SwapStuck, loglife.SwapDone)
			compactAll(s, s.d)
		}),
		"a log is quarantined while a swap is stuck": compacting(func(s *stage) {
			s.inSegments()
			s.swap()
			s.v.await(s, loglife.SwapStuck, loglife.FramesQuarantined)
			s.v.await(s, loglife.QuarantinedStuck, loglife.SwapFailed)
			s.errs.Clear()
			s.v.await(s, loglife.QuarantinedStuck, loglife.SwapDone)
			eventually(s, "the log takes records", func() bool { return s.l.Err() == nil })
		}),
		"a log is deleted while a swap is stuck and it is quarantined": compacting(func(s *stage) {
			s.inSegments()
			s.swap()
			s.v.await(s, loglife.SwapStuck, loglife.FramesQuarantined)
			s.end(loglife.QuarantinedStuck)
		}),
		"a log is deleted while a swap is stuck": compacting(func(s *stage) {
			s.swap()
			s.end(loglife.SwapStuck)
		}),
		"records are lost while a swap is stuck": compacting(func(s *stage) {
			s.inSegments()
			s.ruinJournal()
			s.swap()
			s.v.await(s, loglife.SwapStuck, loglife.FoundDamaged)
		}),
		"a log is deleted while segments are swapped": compacting(func(s *stage) {
			waits, goOn := s.hold(placeCalls)
			defer goOn()
			deleted := make(chan error, 1)
			passed := make(chan struct{})
			go func() { s.d.compactNext(); close(passed) }()
			waits()
			go func() { deleted <- s.d.Delete(s.l) }()
			s.v.await(s, loglife.Swapping, loglife.Deletion)
			goOn()
			if err := <-deleted; err != nil {
				s.Error(err)
			}
			<-passed
		}),
	}
}

func starts() map[string]scene {
	return map[string]scene{
		"a start cannot read a log": plain(func(s *stage) {
			s.restart(errfs.Rule{Ops: errfs.List, Path: "/d/t-0", Err: syscall.EIO}).end(loglife.Offline)
		}),
		"a log that a start cannot read is read later": plain(func(s *stage) {
			n := s.restart(errfs.Rule{Ops: errfs.List, Path: "/d/t-0", Err: syscall.EIO})
			n.errs.Clear()
			n.v.await(n, loglife.Offline, loglife.Mended)
		}),
		"a log that a start cannot read is damaged": plain(func(s *stage) {
			put(s, s.l, 4, 100)
			must(s, s.l.flushAndSync())
			must(s, s.d.checkpoint(nil))
			must(s, s.disk.Remove("/d/t-0/00000000000000000000.log"))
			n := s.restart(errfs.Rule{Ops: errfs.List, Path: "/d/t-0", Err: syscall.EIO})
			n.errs.Clear()
			n.v.await(n, loglife.Offline, loglife.FoundDamaged)
		}),
		"a start finds a log damaged": plain(func(s *stage) {
			put(s, s.l, 4, 100)
			if err := s.l.flushAndSync(); err != nil {
				s.Fatal(err)
			}
			if err := s.d.checkpoint(nil); err != nil {
				s.Fatal(err)
			}
			if err := s.disk.Remove("/d/t-0/00000000000000000000.log"); err != nil {
				s.Fatal(err)
			}
			s.restart().end(loglife.Damaged)
		}),
		"a start cannot remove what a log does not need": plain(func(s *stage) {
			put(s, s.l, 1, 100)
			vfstest.Put(s, s.disk, "/d/t-0/00000000000000000077.log", "x")
			s.restart(errfs.Rule{Ops: errfs.Remove, Path: "*77.log", Err: syscall.EIO})
			s.v.await(s, loglife.Online, loglife.Unreadable)
		}),
		"a start finds a segment that cannot be written": plain(func(s *stage) {
			put(s, s.l, 1, 100)
			s.restart(segmentCalls)
		}),
	}
}

// restart returns a stage on the disk that a kill leaves, with calls that fail.
func (s *stage) restart(rules ...errfs.Rule) *stage {
	s.Helper()
	disk := s.disk.KillImage(1)
	n := &stage{T: s.T, v: s.v, disk: disk, errs: errfs.New(disk)}
	for _, r := range rules {
		n.errs.Add(r)
	}
	n.d = mustOpen(s, n.errs, "sync", s.v.watch)
	n.l = n.d.Logs()[0]
	if n.l.Offline() == nil {
		s.Error("the log is in use")
	}
	return n
}

// Operations and faults take a log through every transition of its table.
func TestALogLivesThroughItsTable(t *testing.T) {
	v := &lived{seen: map[string]bool{}}
	for _, scenes := range []map[string]scene{repairs(), truncations(), swaps(), starts()} {
		for name, play := range scenes {
			t.Run(name, func(t *testing.T) {
				one := &lived{seen: map[string]bool{}}
				play(t, one)
				one.mu.Lock()
				defer one.mu.Unlock()
				maps.Copy(v.seen, one.seen)
			})
		}
	}
	for s := loglife.Opening; s <= loglife.Deleted; s++ {
		for e := loglife.Opened; e <= loglife.Deletion; e++ {
			if _, answer := s.On(e); (answer == states.Moved) != v.saw(s, e) {
				t.Errorf("%v: %v: moves: %v, seen: %v", s, e, answer == states.Moved, v.saw(s, e))
			}
		}
	}
}

// full fills the journal and keeps sweeps from freeing it.
func (s *stage) full() *errfs.Fault {
	s.Helper()
	f := s.errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "/d/checkpoint*/*", Err: syscall.EIO})
	eventually(s, "the directory is blocked", func() bool {
		_ = send(s.l, testBatch(s, 20_000, nil))
		return s.d.life.Load().state == loglife.Blocked
	})
	return f
}

// Appends that wait for space in a full journal are refused at once if the journal cannot free any,
// and succeed when they are sent again.
func TestWhatWaitsForRoomIsRefusedWhenADirectoryIsBlocked(t *testing.T) {
	s := (&lived{seen: map[string]bool{}}).stage(t)
	f := s.full()
	eventually(t, "nothing waits", func() bool { e := s.l.Ends(); return !s.l.inFlight() && e.Durable == e.LogEnd })
	f.Off()
	eventually(t, "the directory takes records", func() bool { return s.d.Err() == nil })
	put(t, s.l, 1, 100)
	holds(t, s.l, s.l.Ends().LogEnd)
	holds(t, mustOpen(t, s.disk.KillImage(1), "sync").Logs()[0], s.l.Ends().LogEnd)
}

// Operations and faults take a directory through every transition of its table.
func TestADirectoryLivesThroughItsTable(t *testing.T) {
	v := &lived{seen: map[string]bool{}}

	s := v.stage(t)
	f := s.full()
	eventually(t, "a second sweep frees nothing", func() bool { return v.saw(loglife.Blocked, loglife.Exhausted) })
	f.Off()
	eventually(t, "the directory takes records", func() bool { return s.d.Err() == nil })
	s.errs.Add(inJournal(s.d, errfs.Rule{Ops: errfs.Datasync, Err: syscall.EIO, Count: 1, Drop: errfs.DropCached}))
	eventually(t, "the directory reopens", func() bool {
		_ = send(s.l, testBatch(t, 10, nil)) // one of them is synced in a file that was synced before
		return v.saw(loglife.JournalDead, loglife.Reopened)
	})
	if err := s.d.Close(); err != nil {
		t.Error(err)
	}
	// Goroutines that are still running may report these events.
	for _, e := range []loglife.DirEvent{loglife.Exhausted, loglife.Freed, loglife.JournalFailed} {
		s.d.applyEvent(e, ErrFailed)
	}

	s = v.stage(t)
	s.full()
	s.d.journalFailed(syscall.EIO) // of a write that began earlier
	s.d.journalFailed(syscall.EIO)
	if err := s.d.Close(); err == nil {
		t.Error("the stop was clean")
	}

	s = v.stage(t)
	s.full()
	_ = s.d.Close()

	for s := loglife.DirOpening; s <= loglife.StoppingDead; s++ {
		for e := loglife.Recovered; e <= loglife.Stop; e++ {
			if _, answer := s.On(e); (answer == states.Moved) != v.saw(s, e) {
				t.Errorf("%v: %v: moves: %v, seen: %v", s, e, answer == states.Moved, v.saw(s, e))
			}
		}
	}
}

// An event that is impossible in the state changes nothing.
func TestAnEventThatCannotBeChangesNothing(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	if bufpool.Invariants {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
	}
	if l.applyEvent(loglife.Replayed, ErrFailed); l.state() != loglife.Online || l.Err() != nil {
		t.Errorf("the log is %v: %v", l.state(), l.Err())
	}
}

// A replay that a deletion interrupts does not count, and checkpoints do not say that it has ended:
// the deletion may never be committed.
func TestAReplayThatADeletionComesIntoIsNotDone(t *testing.T) {
	s := (&lived{seen: map[string]bool{}}).stage(t)
	others, err := s.d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "other", Config: testConfig("sync")}})
	if err != nil {
		t.Fatal(err)
	}
	bad := s.failing()
	s.v.await(t, loglife.Failing, loglife.FramesQuarantined)
	waits, goOn := s.hold(errfs.Rule{Ops: errfs.Read, Path: "*.frames"})
	defer goOn()
	bad.Off()
	waits()
	others[0].flushMu.Lock() // the deletion waits for it before it is committed
	deleted := make(chan error, 1)
	go func() { deleted <- s.d.Delete(s.l, others[0]) }()
	s.v.await(t, loglife.Quarantined, loglife.Deletion)
	commits := s.errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/checkpoint/*"})
	goOn()
	eventually(t, "the repair commits what it has", func() bool { return commits.Hits() > 0 })
	image := s.disk.KillImage(1)
	others[0].flushMu.Unlock()
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	for _, l := range mustOpen(t, image, "sync").Logs() {
		if l.topic == "t" {
			holds(t, l, 4)
		}
	}
}

// A deletion that a crash keeps from being committed loses nothing: the checkpoints in between
// still name everything that a start needs.
func TestADeletionThatIsNotCommittedTakesNothing(t *testing.T) {
	v := &lived{seen: map[string]bool{}}
	s := v.stage(t)
	s.failing()
	v.await(t, loglife.Failing, loglife.FramesQuarantined)
	s.l.applyEvent(loglife.Deletion, ErrClosed)
	others, err := s.d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "other", Config: testConfig("sync")}})
	if err != nil {
		t.Fatal(err)
	}
	first := s.d.journal.Oldest(0).File
	eventually(t, "the journal gives up its first file", func() bool {
		put(t, others[0], 4, 20_000)
		return s.d.journal.Oldest(0).File > first
	})
	again := mustOpen(t, s.disk.KillImage(1), "sync")
	for _, l := range again.Logs() {
		if l.topic == "t" {
			holds(t, l, 4)
		}
	}
}

// Frames that can be neither flushed nor quarantined keep the journal full. The sweep that detects
// this has appends refused, also those of other logs, instead of letting them wait.
func TestASweepThatCannotQuarantineRefusesRecords(t *testing.T) {
	s := (&lived{seen: map[string]bool{}}).stage(t)
	other, err := s.d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "u", Config: testConfig("sync")}})
	if err != nil {
		t.Fatal(err)
	}
	s.errs.Add(framesCalls)
	s.failing()
	s.l = lead(other...)[0]
	eventually(t, "the directory is blocked", func() bool {
		s.l.Append(&Append{Batches: testBatch(t, 20_000, nil), Sink: make(sink, 1)}, nil)
		return s.d.life.Load().state == loglife.Blocked
	})
	eventually(t, "nothing waits", func() bool { return !s.l.inFlight() })
	s.errs.Clear()
	eventually(t, "the directory takes records", func() bool { return s.d.Err() == nil })
	put(t, s.l, 1, 100)
	holds(t, s.l, s.l.Ends().LogEnd)
}
