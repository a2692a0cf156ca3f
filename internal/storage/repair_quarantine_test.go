package storage

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// If the journal fails while a log's frames are quarantined, the log keeps them.
func TestAJournalFailureKeepsQuarantinedFrames(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		var reopened atomic.Int32
		d := mustOpen(t, errs, profile, countReopened(&reopened))
		logs := makeLogs(t, d, 2, profile)
		put(t, logs[0], 4, 900)
		must(t, logs[0].flush())
		put(t, logs[0], 6, 900)
		errs.Add(segmentCalls)
		_ = logs[0].sync()
		eventually(t, "the log is quarantined", logs[0].isQuarantined)
		errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
		_ = send(logs[1], testBatch(t, 10, nil))
		d.journal.Sync()
		eventually(t, "the directory reopened", func() bool { return reopened.Load() == 1 })
		if e := logs[0].Ends(); e.LogEnd != 10 || logs[0].logEnd.Load() != 10 {
			t.Errorf("%s: the log ends at %d, %d", profile, e.LogEnd, logs[0].logEnd.Load())
		}
		if n := d.memory.deferred.Load(); n < 0 {
			t.Errorf("%s: %d bytes are deferred", profile, n)
		}
		errs.Clear()
		eventually(t, "the log takes records again", func() bool { return logs[0].Err() == nil })
		put(t, logs[0], 1, 10)
		holds(t, logs[0], 11)
	}
}

// A repair that fails after a roll begins again at the recovery point, which has not moved. A
// checkpoint and a start in between find every record and every producer, and no segment of the
// failed attempt stays behind.
func TestARepairThatFailedHalfWayBeginsAgain(t *testing.T) {
	t.Parallel()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalBytes = 1 << 20 })
	l := makeLogs(t, d, 1, "sync")[0]
	var sent [][]byte
	more := func(n int) {
		for range n {
			// Two producers: one that continues, and one for each batch.
			for _, p := range []record.Producer{{ID: 1, Sequence: int32(len(sent) / 2)}, {ID: int64(100 + len(sent)/2)}} {
				sent = append(sent, testBatch(t, 900, &p))
				if a := send(l, bytes.Clone(sent[len(sent)-1])); a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		}
		synced(t, l)
	}
	complete := func(l *Log) {
		t.Helper()
		holds(t, l, int64(len(sent)))
		for i, b := range sent {
			if i%2 == 0 && i < len(sent)-10 {
				continue // older than the five batches that are remembered
			}
			if a := send(l, bytes.Clone(b)); a.Err != nil || !a.Duplicate || a.Base != int64(i) {
				t.Errorf("batch %d again: duplicate %v, at %d, %v", i, a.Duplicate, a.Base, a.Err)
			}
		}
		var bases, listed []int64
		infos, err := l.dir.opt.FS.List(l.path)
		must(t, err)
		for _, in := range infos {
			if base, ok := segment.ParseName(in.Name); ok {
				bases = append(bases, base)
			}
		}
		segments, err := l.snapshot()
		must(t, err)
		for _, s := range segments {
			listed = append(listed, s.Base())
		}
		if slices.Sort(bases); !slices.Equal(bases, listed) {
			t.Errorf("the segments on the disk begin at %v, those of the log at %v", bases, listed)
		}
	}

	more(2)
	must(t, l.flushAndSync())
	more(2)
	_ = l.flush()
	more(6)
	errs.Add(segmentCalls)
	_ = l.sync()
	eventually(t, "the log is quarantined", l.isQuarantined)
	cfg := testConfig("sync")
	cfg.Segment.Bytes = 4000
	l.Configure(cfg)
	errs.Clear()
	late := errs.Add(errfs.Rule{Ops: errfs.Create, Path: "/d/t-0/*.log", From: 3, Err: syscall.EIO})
	eventually(t, "two attempts have failed", func() bool { return late.Hits() > 1 })
	must(t, d.commit(l))
	if entry, _ := l.checkpointed(true); entry.Offset != 4 {
		t.Errorf("the recovery point is %d during the repair", entry.Offset)
	}
	for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
		complete(mustOpen(t, image, "sync").Logs()[0])
	}
	late.Off()
	eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
	if entry, _ := l.checkpointed(true); entry.Offset != int64(len(sent)) || entry.QuarantineFile != "" {
		t.Errorf("the recovery point is %d after the repair, the quarantine file is %q", entry.Offset, entry.QuarantineFile)
	}
	complete(l)
	more(1)
	complete(mustOpen(t, disk.KillImage(1), "sync").Logs()[0])
}

// A lookup by time does not skip quarantined records: it fails until they are replayed.
func TestLookupsDoNotSkipQuarantinedRecords(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 5, 900)
	errs.Add(segmentCalls)
	_ = l.flush()
	eventually(t, "the log is quarantined", l.isQuarantined)
	if at, err := l.FindTime(1, 5); err == nil && at.Offset != 0 {
		t.Errorf("the first record is said to be %+v", at)
	}
	if at, err := l.MaxTime(5); err == nil && at.Offset < 0 {
		t.Errorf("no record is said to be there: %+v", at)
	}
	errs.Clear()
	eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
	if at, err := l.MaxTime(5); err != nil || at.Offset != 0 {
		t.Errorf("the greatest timestamp is said to be at %+v: %v", at, err)
	}
}

// Memory that other logs need may be evicted while a log's frames are being copied to quarantine.
func TestALogIsQuarantinedWhileItsCacheIsEvicted(t *testing.T) {
	for range 10 {
		errs := errfs.New(crashfs.New(1))
		d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalBytes = 1 << 20 })
		l := makeLogs(t, d, 1, "sync")[0]
		for range 40 {
			put(t, l, 1, 900)
			must(t, l.flush())
		}
		errs.Add(segmentCalls)
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				default:
					d.memory.evict(l, 1, 0)
				}
			}
		}()
		_ = l.sync()
		eventually(t, "the log is quarantined or given up", func() bool { return l.isQuarantined() || l.Offline() != nil })
		close(done)
		must(t, l.Offline())
		_ = d.Close()
	}
}

// A reader during a repair gets an error for records that have not been replayed yet; it does not
// find a hole.
func TestReadersBesideAReplayFindNoHole(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes = 2<<20, 32<<20 })
	l := makeLogs(t, d, 1, "sync")[0]
	large := testConfig("sync")
	large.Segment.Bytes = 64 << 20
	l.Configure(large)
	put(t, l, 10, 300_000)
	must(t, l.flush())
	put(t, l, 10, 300_000)
	bad := errs.Add(segmentCalls)
	_ = l.sync()
	eventually(t, "the log is quarantined", l.isQuarantined)
	hold, let := gated(t)
	// The frames take several reads.
	held := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "*.frames", From: 2, Count: 1, Before: func(errfs.Call) { <-hold }})
	bad.Off()
	eventually(t, "a part is replayed", func() bool { return held.Hits() > 0 })
	for at := range int64(20) {
		s, err := l.Read(at, 20, 1, true)
		if err == nil && s.Size == 0 {
			t.Errorf("nothing is said to be at %d", at)
		}
		s.Release()
	}
	let()
	eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
	holds(t, l, 20)
}

// If the commit after a replay fails, the file is removed after the next repair.
func TestARepairThatIsCommittedLateLeavesNothing(t *testing.T) {
	t.Parallel()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalBytes = 1 << 20 })
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 5, 900)
	_ = l.flush()
	put(t, l, 5, 900)
	bad := errs.Add(segmentCalls)
	_ = l.sync()
	eventually(t, "the log is quarantined", l.isQuarantined)
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, Path: "/d/checkpoint*/*", Count: 3, Err: syscall.EIO})
	bad.Off()
	eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
	put(t, l, 1, 10)
	holds(t, l, 11)
	if left := framesIn(t, disk); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	holds(t, mustOpen(t, disk.KillImage(1), "sync").Logs()[0], 11)
}

// A deletion of several logs and a repair of several logs do not wait for each other.
func TestADeletionBesideARepairEnds(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	logs := makeLogs(t, d, 3, "sync")
	first, gate, last := logs[0], logs[1], logs[2]
	for _, l := range logs {
		put(t, l, 1, 10)
		postponeRepair(l)
		l.applyEvent(loglife.SegmentFailed, ErrFailed)
	}
	gate.flushMu.Lock()
	copied, deleted := make(chan error, 1), make(chan error, 1)
	go func() {
		errs := d.quarantineLogs([]*Log{first, gate, last})
		copied <- errors.Join(errs[first], errs[gate]) // the last one may be in the deletion's hands
	}()
	eventually(t, "the copy waits for the second log", func() bool {
		gate.queueMu.Lock()
		defer gate.queueMu.Unlock()
		return gate.committing
	})
	go func() { deleted <- d.Delete(last, first) }()
	eventually(t, "the deletion waits for the first log", func() bool {
		first.queueMu.Lock()
		defer first.queueMu.Unlock()
		return first.waiters > 0
	})
	gate.flushMu.Unlock()
	for _, c := range []chan error{copied, deleted} {
		select {
		case err := <-c:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("they wait for each other")
		}
	}
}

// A start whose replay a log's directory refuses quarantines the frames, and the next one replays
// them.
func TestAStartReplaysWhatAnEarlierOneQuarantined(t *testing.T) {
	if end := afterRefusedReplay(t, broken{}); end != 5 {
		t.Errorf("the log ends at %d, not at 5", end)
	}
}

// afterRefusedReplay returns the end of a log with five records after a start that could not replay
// them, and another one that could.
func afterRefusedReplay(t *testing.T, b broken) int64 {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	l := makeLogs(t, mustOpen(t, errs, "sync"), 1, "sync")[0]
	hold, _ := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: l.path + "/*", Before: func(errfs.Call) { <-hold }}) // the journal alone has them
	put(t, l, 5, 1000)
	errs = errfs.New(disk.KillImage(1))
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: l.path + "/*", Err: syscall.EIO})
	without := func(o *Options) { o.broken = b }
	d := mustOpen(t, errs, "sync", without)
	if d.Logs()[0].Offline() == nil {
		t.Error("the log is online")
	}
	must(t, d.Close())
	errs.Clear()
	return mustOpen(t, errs, "sync", without).Logs()[0].Ends().LogEnd
}

// A start reads quarantined frames only from the quarantine file: the first of the frames that the
// journal still has may be gone.
func TestAStartReadsQuarantinedFramesOnlyFromTheirFile(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalBytes = 1 << 20 })
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 4, 900)
	must(t, l.flushAndSync())
	first := d.journal.Oldest(0).File
	put(t, l, 10, 20_000) // in several files
	errs.Add(segmentCalls)
	_ = l.flushAndSync()
	eventually(t, "the log is quarantined", l.isQuarantined)
	must(t, d.checkpoint(nil))
	if d.journal.Oldest(0).File == first {
		t.Fatal("the journal has all its files")
	}
	for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
		holds(t, mustOpen(t, image, "sync").Logs()[0], 14)
	}
}

// An unreadable journal file does not keep its directory from being reopened if memory has the
// frames to quarantine.
func TestFramesAreQuarantinedFromMemoryIfTheJournalCannotBeRead(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 4, 900)
	must(t, logs[0].flushAndSync())
	put(t, logs[0], 6, 900)
	unread := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "*.journal", Err: syscall.EIO})
	errs.Add(segmentCalls)
	_ = logs[0].flush()
	errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
	_ = send(logs[1], testBatch(t, 10, nil))
	d.journal.Sync()
	eventually(t, "the log is quarantined", logs[0].isQuarantined)
	eventually(t, "the directory takes records", func() bool { return d.Err() == nil })
	if unread.Hits() == 0 {
		t.Error("the journal was not read")
	}
	errs.Clear()
	eventually(t, "the log takes records again", func() bool { return logs[0].Err() == nil })
	put(t, logs[0], 1, 10)
	holds(t, logs[0], 11)
}

// If memory lacks the frames in an unreadable journal file, nothing is given up, and the repair is
// retried.
func TestAJournalThatCannotBeReadForATimeLosesNothing(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalBytes = 1 << 20 })
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 10, 900)
	must(t, l.flush())
	d.memory.evictCached(d.Logs())
	unread := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "*.journal", Err: syscall.EIO})
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create, Path: "/d/t-0/*.log", Count: 1, Err: syscall.EIO,
		Drop: errfs.DropCached})
	_ = l.sync()
	eventually(t, "the journal refuses twice", func() bool { return unread.Hits() > 1 })
	if err := l.Offline(); err != nil || l.isQuarantined() {
		t.Fatalf("quarantined: %v, offline: %v", l.isQuarantined(), err)
	}
	unread.Off()
	eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
	holds(t, l, 10)
}

// Quarantined frames that turn out to be damaged take the log offline, once and with the reason.
func TestADamagedQuarantineFileEndsTheRepair(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalBytes = 1 << 20 })
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 10, 900)
	bad := errs.Add(segmentCalls)
	_ = l.flush()
	eventually(t, "the log is quarantined", l.isQuarantined)
	name := "/d/" + framesIn(t, disk)[0]
	change(t, disk, name, 100, []byte{0xde, 0xad, 0xbe, 0xef})
	bad.Off()
	eventually(t, "the log is offline", func() bool { return l.Offline() != nil })
	if err := l.Offline(); !errors.Is(err, journal.ErrDamaged) || l.state() != loglife.Damaged {
		t.Errorf("%v: %v", l.state(), err)
	}
	must(t, d.checkpoint(nil))
	if s, err := ReadState(disk, "/d"); err != nil || s.Logs[0].Offline == "" || "/d/"+s.Logs[0].QuarantineFile != name {
		t.Errorf("the checkpoint says %+v: %v", s, err)
	}
	again := mustOpen(t, disk.KillImage(1), "sync").Logs()[0]
	if again.state() != loglife.Damaged {
		t.Errorf("after a start the log is %v", again.state())
	}
	if left := framesIn(t, disk); len(left) != 1 {
		t.Errorf("kept for a repair: %v", left)
	}
}

// A log that is deleted before its repair is committed leaves no frames behind.
func TestADeletionOfARepairedLogLeavesNothing(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalBytes = 1 << 20 })
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 5, 900)
	bad := errs.Add(segmentCalls)
	_ = l.flush()
	eventually(t, "the log is quarantined", l.isQuarantined)
	full := errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, Path: "/d/checkpoint*/*", Err: syscall.EIO})
	bad.Off()
	eventually(t, "the log is replayed, and that can't be committed",
		func() bool { return l.state() == loglife.Failing && full.Hits() > 0 })
	full.Off()
	must(t, d.Delete(l))
	eventually(t, "its frames are gone", func() bool { return len(framesIn(t, disk)) == 0 })
}

// Memory continues the journal's frames also if it has joined the last of them to later ones.
func TestFramesAreQuarantinedFromTheMiddleOfAChunk(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	var reopened atomic.Int32
	d := mustOpen(t, errs, "os", countReopened(&reopened))
	l := makeLogs(t, d, 1, "os")[0]
	other, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{2}, Partition: 1}, Topic: "u", Config: testConfig("sync")}})
	must(t, err)
	lead(other...)
	put(t, l, 5, 100) // far from the end of the file
	if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "the first frame is written", func() bool {
		return l.Ends().Written == 6 && d.journal.Notified() == d.journal.Assigned()
	})
	full := errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "/d/t-0/*.log", Err: syscall.ENOSPC})
	errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO}))
	var batch groupcommit.Batch // one write: the second frame, and one whose datasync fails
	for _, to := range []*Log{l, other[0]} {
		to.Append(&Append{Batches: testBatch(t, 100, nil), LeaderEpoch: epochOf(to), Sink: make(sink, 1)}, &batch)
	}
	batch.Run()
	eventually(t, "the directory reopened", func() bool { return reopened.Load() == 1 })
	if err := l.Offline(); err != nil || !l.isQuarantined() {
		t.Fatalf("quarantined: %v, offline: %v", l.isQuarantined(), err)
	}
	holds(t, byPartition(t, mustOpen(t, disk.KillImage(1), "os"), 0), 7)
	full.Off()
	eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
	put(t, l, 1, 10)
	holds(t, l, 8)
}
