package storage

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

var cluster7 = checkpoint.Owner{Cluster: [16]byte{7}, Generation: [16]byte{8}}

// inBoot lets a directory be opened in a boot of the system; 0 is one that is unknown.
func inBoot(n byte) func(*Options) {
	return func(o *Options) { o.Boot = func() [16]byte { return [16]byte{n} } }
}

// withProfiles lets the partitions found at a start have profiles, the first the first.
func withProfiles(names ...string) func(*Options) {
	return func(o *Options) {
		o.Config = func(_ string, id ID) Config { return testConfig(names[id.Partition]) }
	}
}

// twoProfiles creates logs 0, which acknowledges synced records, and 1, which acknowledges written
// ones, and appends to both.
func twoProfiles(t *testing.T, d *Dir) {
	t.Helper()
	for i, l := range makeLogs(t, d, 2, "sync") {
		put(t, l, 2, 100)
		if i == 1 {
			l.Configure(testConfig("os"))
			eventually(t, "the profile applies", func() bool { return l.acks.marked.Load() })
			if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
				t.Fatal(a.Err)
			}
			eventually(t, "a written record counts", func() bool { return l.AckEnd() == 3 })
		}
	}
}

// wantLoss opens a directory and checks what it reports.
func wantLoss(t *testing.T, fsys vfs.FS, boot byte, clean, lossy bool, partitions ...int32) *Dir {
	t.Helper()
	d := mustOpen(t, fsys, "sync", inBoot(boot), withProfiles("sync", "os", "sync"))
	var got []int32
	for _, id := range d.LossyLogs() {
		got = append(got, id.Partition)
	}
	if d.Clean() != clean || d.Lossy() != lossy || fmt.Sprint(got) != fmt.Sprint(partitions) {
		t.Errorf("in boot %d: clean %v, lossy %v, logs %v, want %v, %v, %v", boot, d.Clean(), d.Lossy(), got, clean, lossy, partitions)
	}
	return d
}

func mustClose(t *testing.T, d *Dir) {
	t.Helper()
	must(t, d.Close())
}

// The end of the process loses nothing that was written. A power loss may, and a boot that is
// unknown may hide one: then the logs that acknowledge written records are named. A clean stop
// loses nothing.
func TestLossesOfWrittenRecordsAreKnown(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", inBoot(1))
	twoProfiles(t, d)
	wantLoss(t, disk.KillImage(1), 1, false, false)
	power := func() *crashfs.FS { return disk.PowerLossImage(crashfs.DropUnsynced, 1) }
	holds(t, byPartition(t, wantLoss(t, power(), 2, false, true, 1), 1), 2) // the written record is gone
	wantLoss(t, power(), 0, false, true, 1)
	mustClose(t, d)
	d = wantLoss(t, disk, 2, true, false)
	mustClose(t, d)
	d = wantLoss(t, disk, 0, true, false)
	wantLoss(t, disk.KillImage(1), 2, false, true, 1) // the boot before is not known
	must(t, d.Delete(byPartition(t, d, 1)))
	wantLoss(t, disk.KillImage(1), 2, false, true)
}

// A loss is reported until the owner has registered it: after a crash in the new boot and after a
// clean stop, too. Logs that began to acknowledge written records since are not concerned.
func TestALossIsReportedUntilTheRegistration(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", inBoot(1))
	twoProfiles(t, d)
	disk = disk.PowerLossImage(crashfs.DropUnsynced, 1)
	d = wantLoss(t, disk, 2, false, true, 1)
	if _, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}, Partition: 2}, Topic: "t", Config: testConfig("os")}}); err != nil {
		t.Fatal(err)
	}
	disk = disk.KillImage(1)
	d = wantLoss(t, disk, 2, false, true, 1)
	mustClose(t, d)
	d = wantLoss(t, disk, 2, true, true, 1)
	must(t, d.Registered(cluster7))
	if o := wantLoss(t, disk.KillImage(1), 2, false, false).Owner(); o != cluster7 {
		t.Errorf("the directory belongs to %+v", o)
	}
	mustClose(t, d)
	d = wantLoss(t, disk, 3, true, false)
	if o := d.Owner(); o != cluster7 {
		t.Errorf("after a clean stop the directory belongs to %+v", o)
	}
	for _, writes := range []uint64{1, 0} {
		before := d.lastSeq()
		if err := d.Registered(cluster7); err != nil || d.lastSeq() != before+writes {
			t.Errorf("%d checkpoints were written, want %d: %v", d.lastSeq()-before, writes, err)
		}
	}
}

// A disk that is full at the registration does not hide to whom the logs belong that are created
// when there is space again.
func TestNoLogIsListedWithoutItsOwner(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	full := errs.Add(commitCalls)
	if err := d.Registered(cluster7); err == nil {
		t.Fatal("the registration was written")
	}
	full.Off()
	if _, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: testConfig("sync")}}); err != nil {
		t.Fatal(err)
	}
	if o := mustOpen(t, disk.KillImage(1), "sync").Owner(); o != cluster7 {
		t.Errorf("the directory belongs to %+v", o)
	}
}

// TestFault01PowerLossBesideAChangeOfProfile cuts the power at every call of a run in which a log
// begins to acknowledge written records. If one of these records is gone, the start names the log.
func TestFault01PowerLossBesideAChangeOfProfile(t *testing.T) {
	t.Parallel()
	lost := 0
	for call := 1; ; call++ {
		f := crashfs.New(uint64(call))
		f.CrashDuring(call)
		acked := int64(0)
		d, err := openDir(f, "sync", inBoot(1))
		if err == nil {
			acked, err = acknowledgesSooner(d)
			_ = d.Close()
		}
		if err != nil && !f.Crashed() {
			t.Fatalf("call %d: %v", call, err)
		}
		gone, named := losesRecords(t, f, acked)
		if gone && !named {
			t.Errorf("call %d: the log was acknowledged up to %d", call, acked)
		}
		if gone {
			lost++
		}
		if !f.Crashed() {
			break
		}
	}
	if lost == 0 {
		t.Error("no record was lost")
	}
}

// losesRecords cuts the power, and reports whether the log then ends below acked and whether the
// start names it.
func losesRecords(t *testing.T, f *crashfs.FS, acked int64) (gone, named bool) {
	t.Helper()
	d := mustOpen(t, f.PowerLossImage(crashfs.DropUnsynced, 1), "sync", inBoot(2))
	defer mustClose(t, d)
	for _, l := range d.Logs() {
		gone = gone || l.Ends().LogEnd < acked
	}
	return gone, len(d.LossyLogs()) > 0
}

// A profile that acknowledges written records applies only after a checkpoint has the log's mark:
// until then, acknowledged records are synced.
func TestAProfileWaitsForItsMark(t *testing.T) {
	if gone, named := lostBeforeMark(t, broken{}); gone {
		t.Errorf("a record was lost, and the log was named: %v", named)
	}
}

// lostBeforeMark cuts the power after a record was acknowledged while the checkpoint with the mark
// of the new profile was being written; see losesRecords.
func lostBeforeMark(t *testing.T, b broken) (gone, named bool) {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", inBoot(1), func(o *Options) { o.broken = b })
	l := makeLogs(t, d, 1, "sync")[0]
	hold, let := gated(t)
	held := errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Before: func(errfs.Call) { <-hold }})
	l.Configure(testConfig("os"))
	eventually(t, "the checkpoint is written", func() bool { return held.Hits() > 0 })
	if l.Config().Profile.Name != "os" {
		t.Errorf("the profile is %s", l.Config().Profile.Name)
	}
	if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "the record counts", func() bool { return l.AckEnd() == 1 })
	if e := l.Ends(); b == (broken{}) && (l.AcksWritten() || e.Written > e.Durable) {
		t.Errorf("before the mark the log is %+v and acknowledges written records: %v", e, l.AcksWritten())
	}
	gone, named = losesRecords(t, disk, 1)
	let()
	eventually(t, "the profile applies", func() bool { return l.cfg.Load().Profile.Name == "os" && l.AcksWritten() })
	return gone, named
}

// A checkpoint that cannot be written leaves a log with its old profile. The next one gives it the
// new profile. When no written record counts any longer, checkpoints drop the mark.
func TestAnyCheckpointHasTheMark(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	fault := errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Count: 1, Err: syscall.EIO})
	l.Configure(testConfig("os"))
	eventually(t, "the checkpoint fails", func() bool { return fault.Hits() > 0 })
	put(t, l, 1, 100)
	if err := d.checkpoint(nil); err != nil || l.cfg.Load().Profile.Name != "os" {
		t.Errorf("after a checkpoint the profile is %s: %v", l.cfg.Load().Profile.Name, err)
	}
	l.Configure(testConfig("sync"))
	synced(t, l)
	if err := d.checkpoint(nil); err != nil || l.acks.marked.Load() {
		t.Errorf("after a checkpoint without written records the log is marked: %v, %v", l.acks.marked.Load(), err)
	}
	l.Configure(testConfig("os"))
	other := testConfig("sync")
	other.Profile.Name = "high"
	l.Configure(other)
	if err := d.checkpoint(nil); err != nil || l.cfg.Load().Profile.Name != "high" || l.Config().Profile.Name != "high" {
		t.Errorf("a profile that was set after one that waits is %s: %v", l.cfg.Load().Profile.Name, err)
	}
}

// acknowledgesSooner changes the profile of a log and returns the end of its acknowledged records.
func acknowledgesSooner(d *Dir) (acked int64, err error) {
	logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: testConfig("sync")}})
	if err != nil {
		return 0, err
	}
	l := logs[0]
	l.Configure(testConfig("os"))
	for i := range int64(6) {
		if a := send(l, numbered(-1, -1, d.now())); a.Err != nil {
			return acked, a.Err
		}
		for acked = l.AckEnd(); acked <= i; acked = l.AckEnd() {
			if err := l.Err(); err != nil {
				return acked, err
			}
			d.sleep(50_000)
		}
	}
	return acked, nil
}

// After a failed sync the system may drop written records without a restart. A kill in that state
// counts like a power loss, until the records are in synced segments.
func TestAKillAfterAFailedSyncMayLoseRecords(t *testing.T) {
	if during, after := lossyAfterFailedSync(t, broken{}); !during || after {
		t.Errorf("lossy during the failure: %v, after it: %v", during, after)
	}
}

// lossyAfterFailedSync reports whether a start in the same boot finds a loss: after a kill before
// the directory has recovered from a failed sync of its journal, and after a kill afterwards.
func lossyAfterFailedSync(t *testing.T, b broken) (during, after bool) {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	var reopened atomic.Int32
	d := mustOpen(t, errs, "sync", inBoot(1), countReopened(&reopened), func(o *Options) { o.broken = b })
	twoProfiles(t, d)
	l := byPartition(t, d, 1)
	synced(t, l) // a datasync that was requested before may cover the record of twoProfiles, or not
	hold, let := gated(t)
	segments := errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/t-*/*.log", Before: func(errfs.Call) { <-hold }})
	errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO}))
	if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "a written record counts", func() bool { return l.AckEnd() == 4 })
	d.journal.Sync()
	eventually(t, "the directory recovers from the failure", func() bool { return segments.Hits() > 0 })
	image := disk.KillImage(1)
	let()
	eventually(t, "the directory accepts records", func() bool { return reopened.Load() > 0 })
	for i, image := range []*crashfs.FS{image, disk.KillImage(1)} {
		again := mustOpen(t, image, "sync", inBoot(1), withProfiles("sync", "os"))
		if got := fmt.Sprint(again.LossyLogs()); again.Lossy() != (len(again.LossyLogs()) == 1) {
			t.Errorf("image %d is lossy: %v, logs %s", i, again.Lossy(), got)
		}
		if i == 0 {
			during = again.Lossy()
		} else {
			after = again.Lossy()
		}
	}
	return during, after
}

// A copy of a directory that is put back has an older checkpoint than the directory had before, and
// the start tells, also if the copy was made right before the last start. Starts between two
// registrations are one finding.
func TestAnOlderCopyHasAnOlderCheckpoint(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	if f, now := d.Finding(), d.CheckpointSequence(); f != (checkpoint.Finding{}) || now == 0 {
		t.Errorf("the first start found %v and wrote %d", f, now)
	}
	mustClose(t, d)
	d = mustOpen(t, disk, "sync")
	var older *crashfs.FS
	for last := d.Finding(); last.Seq < 20; {
		mustClose(t, d)
		d = mustOpen(t, disk, "sync")
		if f := d.Finding(); f != last {
			t.Errorf("found %v and then %v, without a registration", last, f)
		}
		must(t, d.Registered(cluster7))
		registered := d.CheckpointSequence()
		mustClose(t, d)
		older = disk.KillImage(1)
		d = mustOpen(t, disk, "sync")
		found, now := d.Finding(), d.CheckpointSequence()
		if found.Seq < registered || now <= found.Seq || now != d.lastSeq() || found.ID == last.ID {
			t.Errorf("a start after checkpoint %d and %v found %v and wrote %d", registered, last, found, now)
		}
		last = found
	}
	registered, last := d.CheckpointSequence(), d.Finding()
	for range 3 { // no start before a registration hides it
		found := mustOpen(t, older, "sync").Finding()
		if found.Seq >= registered || found.ID == last.ID {
			t.Errorf("an older copy has %v, the directory had %d, %v", found, registered, last)
		}
		older = older.KillImage(1)
	}
}

// The operator is warned of a loss once, by the start that finds it, and only if a log acknowledged
// written records. Without a cluster, nothing ever registers the loss.
func TestALossIsLoggedOnce(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", inBoot(1))
	core, logged := observer.New(zap.WarnLevel)
	start := func(boot byte, clean bool, want int) {
		t.Helper()
		if clean {
			mustClose(t, d)
		} else {
			disk = disk.PowerLossImage(crashfs.DropUnsynced, 1)
		}
		d = mustOpen(t, disk, "sync", inBoot(boot), withProfiles("sync", "os"), func(o *Options) { o.Logger = zap.New(core) })
		if n := logged.FilterMessageSnippet("may be lost").Len(); n != want {
			t.Errorf("boot %d, clean %v: %d warnings, want %d", boot, clean, n, want)
		}
	}
	put(t, makeLogs(t, d, 1, "sync")[0], 2, 100)
	start(2, false, 0)
	log := Spec{ID: ID{Topic: [16]byte{1}, Partition: 1}, Topic: "t", Config: testConfig("os")}
	if _, err := d.Create([]Spec{log}); err != nil {
		t.Fatal(err)
	}
	start(3, false, 1)
	start(3, true, 1)
	start(4, false, 2)
}

// The confirmation of a registration does not wait for the disk, and ends before a stop does.
func TestAConfirmationDoesNotWaitForTheDisk(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	hold, let := gated(t)
	held := errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/checkpoint*/*", Count: 1, Before: func(errfs.Call) { <-hold }})
	returned := make(chan struct{})
	go func() {
		d.Confirm(checkpoint.Owner{Generation: [16]byte{7}})
		close(returned)
	}()
	eventually(t, "the disk is asked", func() bool { return held.Hits() > 0 })
	select {
	case <-returned:
	case <-time.After(patience):
		t.Error("the confirmation waits for the disk")
	}
	let()
	must(t, d.Close())
	s, err := ReadState(disk, "/d")
	must(t, err)
	if s.Owner.Generation != [16]byte{7} {
		t.Errorf("the checkpoint has %+v", s.Owner)
	}
}
