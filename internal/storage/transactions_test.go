package storage

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// inTxn returns a batch of one record in a transaction.
func inTxn(t testing.TB, id int64, epoch int16, seq int32, size int) []byte {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: id, Epoch: epoch, Sequence: seq}, Transactional: true})
	b.Append(1, []byte("k"), make([]byte, size), nil)
	data, err := b.Build()
	must(t, err)
	return data
}

// transact appends a batch that its coordinator permits.
func transact(l *Log, batch []byte) *Append {
	a := &Append{Batches: batch, LeaderEpoch: epochOf(l), Sink: make(sink, 1),
		Permit: producers.Permit{Guard: l.Guard(record.Batch(batch).ProducerID()), CoordinatorEpoch: math.MaxInt32}}
	l.Append(a, nil)
	return <-a.Sink.(sink)
}

// endTxn appends a marker.
func endTxn(l *Log, id int64, epoch int16, kind record.ControlType, from producers.Sender) *Append {
	a := &Append{Kind: Marker, Batches: record.EndTxnMarker(id, epoch, kind, 0, 1), LeaderEpoch: epochOf(l), Sink: make(sink, 1),
		Sender: from}
	l.Append(a, nil)
	return <-a.Sink.(sink)
}

// ok fails the test unless an append succeeded.
func ok(t testing.TB, a *Append) *Append {
	t.Helper()
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a
}

// A transaction begins with a permit and ends with its marker. A marker that is repeated is not
// written again.
func TestATransaction(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	if a := send(l, inTxn(t, 7, 0, 0, 10)); !errors.Is(a.Err, ErrUnverified) {
		t.Errorf("without a permit: %v", a.Err)
	}
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	ok(t, send(l, inTxn(t, 7, 0, 1, 10)))
	if a := send(l, testBatch(t, 10, &record.Producer{ID: 7, Sequence: 2})); !errors.Is(a.Err, ErrTransactionOpen) {
		t.Errorf("outside of the transaction: %v", a.Err)
	}
	if p, _ := l.Producer(7); p.First != 0 || p.LastSequence != 1 || l.FirstUnstable(math.MaxInt64) != 0 {
		t.Errorf("%+v, unstable from %d", p, l.FirstUnstable(math.MaxInt64))
	}
	strict := producers.Sender{Bumps: true}
	if a := endTxn(l, 7, 0, record.Commit, strict); !errors.Is(a.Err, ErrInvalidProducerEpoch) {
		t.Errorf("a marker of the transaction before: %v", a.Err)
	}
	if a := ok(t, endTxn(l, 7, 1, record.Commit, strict)); a.Base != 2 || a.Next != 3 || a.Duplicate {
		t.Errorf("%+v", a)
	}
	if a := ok(t, endTxn(l, 7, 1, record.Commit, strict)); a.Base != 2 || a.Next != 3 || !a.Duplicate || l.Ends().LogEnd != 3 {
		t.Errorf("a repeated marker: %+v", a)
	}
	if all := l.Producers(); len(all) != 1 || all[0].Epoch != 1 || all[0].First != -1 || all[0].CoordinatorEpoch != 0 {
		t.Errorf("%+v", all)
	}
	if s := l.FirstUnstable(math.MaxInt64); s != math.MaxInt64 {
		t.Errorf("unstable from %d", s)
	}
}

// What the coordinator said before a change of the role counts no longer.
func TestAGuardEndsWithTheRole(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	a := &Append{Batches: inTxn(t, 7, 0, 0, 10), LeaderEpoch: 5, Sink: make(sink, 1), Permit: producers.Permit{Guard: l.Guard(7)}}
	l.SetLeaderEpoch(4, false)
	l.SetLeaderEpoch(5, true)
	l.Append(a, nil)
	if <-a.Sink.(sink); !errors.Is(a.Err, ErrUnverified) {
		t.Errorf("with a guard of an earlier epoch: %v", a.Err)
	}
	g := l.Guard(7)
	if l.Unguard(7, g); l.Guard(7) == g {
		t.Error("a guard that was given up is still there")
	}
}

// A marker is accepted when the disk has too little space for the records of clients.
func TestALowDiskAcceptsMarkers(t *testing.T) {
	disk := newGauge(1 << 40)
	d := mustOpen(t, disk, "sync", guarded)
	l, _ := ours(t, d)
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	disk.leave(t, d, 90*mib)
	data := &Append{Batches: testBatch(t, 10, nil), LeaderEpoch: epochOf(l), Sink: make(sink, 1)}
	end := &Append{Kind: Marker, Batches: record.EndTxnMarker(7, 1, record.Commit, 0, 1), LeaderEpoch: epochOf(l), Sink: make(sink, 1)}
	l.acquireCommit() // so that both are in one group
	l.Append(data, nil)
	l.Append(end, nil)
	l.releaseCommit()
	<-data.Sink.(sink)
	<-end.Sink.(sink)
	if !errors.Is(data.Err, ErrLowSpace) || end.Err != nil || end.Base != 1 {
		t.Errorf("records: %v; marker: %v at %d", data.Err, end.Err, end.Base)
	}
}

// A coordinator's append is accepted as a whole, with a marker also on a disk that is nearly full.
// The log does not check its producers.
func TestCoordinatorsAppendAsOne(t *testing.T) {
	disk := newGauge(1 << 40)
	d := mustOpen(t, disk, "sync", guarded)
	_, l := ours(t, d)
	coordinate := func(batches ...[]byte) *Append {
		a := &Append{Kind: Coordinator, Batches: slices.Concat(batches...), LeaderEpoch: epochOf(l), Sink: make(sink, 1)}
		l.Append(a, nil)
		return <-a.Sink.(sink)
	}
	plain, offsets := testBatch(t, 10, nil), func(epoch int16) []byte { return inTxn(t, 7, epoch, -1, 10) }
	end := func(epoch int16) []byte { return record.EndTxnMarker(7, epoch, record.Commit, 3, 1) }
	if a := coordinate(plain, offsets(4), plain, end(4), offsets(2)); a.Err != nil || a.Base != 0 || a.Next != 5 {
		t.Fatalf("[%d, %d): %v", a.Base, a.Next, a.Err)
	}
	if p, _ := l.Producer(7); p.First != 4 || p.Epoch != 4 || p.CoordinatorEpoch != 3 {
		t.Errorf("%+v", p)
	}
	if a := coordinate(plain, end(4)[:30]); a.Err == nil || l.Ends().LogEnd != 5 {
		t.Errorf("with a part of a batch: %v, the log ends at %d", a.Err, l.Ends().LogEnd)
	}
	disk.leave(t, d, 40*mib)
	if a := coordinate(plain, offsets(4)); !errors.Is(a.Err, ErrLowSpace) {
		t.Errorf("without a marker: %v", a.Err)
	}
	if a := coordinate(plain, end(4)); a.Err != nil || a.Next != 7 {
		t.Errorf("with a marker: %v", a.Err)
	}
	if p, _ := l.Producer(7); p.First != -1 {
		t.Errorf("%+v", p)
	}
}

// stableAfterRestart returns the last stable offsets for two high watermarks, below and above a
// marker, before and after a start.
func stableAfterRestart(t *testing.T, b broken) string {
	disk := crashfs.New(1)
	rules := func(o *Options) { o.broken = b }
	d := mustOpen(t, disk, "sync", rules)
	l := makeLogs(t, d, 1, "sync")[0]
	l.Observe(bounded{high: 2}) // a follower lacks the marker
	ok(t, send(l, testBatch(t, 10, nil)))
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	ok(t, endTxn(l, 7, 1, record.Abort, producers.Sender{}))
	synced(t, l)
	before := fmt.Sprint(l.FirstUnstable(2))
	must(t, l.flushAndSync())
	must(t, d.commit(l))
	l = mustOpen(t, disk.KillImage(1), "sync", rules).Logs()[0]
	return fmt.Sprint(before, " ", l.FirstUnstable(2), " ", l.FirstUnstable(3) == math.MaxInt64)
}

// A transaction is open for readers until its marker is committed, also after a start.
func TestAMarkerCountsBelowTheHighWatermark(t *testing.T) {
	if got := stableAfterRestart(t, broken{}); got != "1 1 true" {
		t.Error(got)
	}
}

// openInCheckpoint reports whether a checkpoint stores a transaction as open whose marker is in a
// segment, but above the recovery point.
func openInCheckpoint(t *testing.T, b broken) bool {
	d := mustOpen(t, vfs.Memory(), "sync", func(o *Options) { o.broken = b })
	l := makeLogs(t, d, 1, "sync")[0]
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	synced(t, l)
	must(t, l.flushAndSync())
	ok(t, endTxn(l, 7, 1, record.Commit, producers.Sender{}))
	synced(t, l)
	must(t, l.flush())
	var known producers.State
	entry, _ := l.checkpointed(true)
	if _, err := known.Decode(entry.Producers); err != nil || entry.Offset != 1 || l.flushed != 2 {
		t.Fatalf("recovery point %d, %d in segments, %v", entry.Offset, l.flushed, err)
	}
	p, _ := known.Producer(7)
	return p.First == 0
}

// A marker that is in a segment and not synced may be lost with the power. So a checkpoint must not
// count it.
func TestACheckpointHasTheTransactionsOfItsRecoveryPoint(t *testing.T) {
	if !openInCheckpoint(t, broken{}) {
		t.Error("a transaction is stored as ended by a marker above the recovery point")
	}
}

// truncatedOpen cuts a log after a power loss to an end below a marker, whose transaction began in
// records that are deleted, and returns where the transaction is open since then.
func truncatedOpen(t *testing.T, b broken) int64 {
	disk := crashfs.New(1)
	rules := func(o *Options) { o.broken = b }
	d := mustOpen(t, disk, "sync", rules)
	l := makeLogs(t, d, 1, "sync")[0]
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	for range 2 {
		put(t, l, 1, 10)
		must(t, l.roll())
	}
	must(t, l.SetLogStart(l.active().Base()))
	put(t, l, 1, 10)
	ok(t, endTxn(l, 7, 1, record.Abort, producers.Sender{}))
	synced(t, l)
	must(t, errors.Join(l.flushAndSync(), d.checkpoint(nil)))
	image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	l = mustOpen(t, image, "sync", rules).Logs()[0]
	must(t, l.Truncate(l.Ends().LogEnd-1))
	if p, known := l.Producer(7); known {
		return p.First
	}
	return -1
}

// withoutSnapshots returns a log of three segments whose snapshots are lost. A transaction begins
// in the first one, and ends with the log's last record.
func withoutSnapshots(t *testing.T, fsys vfs.FS, b broken) (*Dir, *Log) {
	d := mustOpen(t, fsys, "sync", func(o *Options) { o.broken = b })
	l := makeLogs(t, d, 1, "sync")[0]
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	for range 2 {
		put(t, l, 1, 10)
		must(t, l.roll())
	}
	put(t, l, 1, 10)
	ok(t, endTxn(l, 7, 1, record.Abort, producers.Sender{}))
	synced(t, l)
	must(t, l.flushAndSync())
	for _, s := range l.segments[1:] {
		must(t, fsys.Remove(s.ProducersPath()))
	}
	return d, l
}

// truncatedWithoutSnapshot is truncatedOpen without the snapshot of the segment that stays, which
// was lost before the others went.
func truncatedWithoutSnapshot(t *testing.T, b broken) int64 {
	_, l := withoutSnapshots(t, vfs.Memory(), b)
	must(t, errors.Join(l.SetLogStart(l.active().Base()), l.Truncate(l.Ends().LogEnd-1)))
	if p, known := l.Producer(7); known {
		return p.First
	}
	return -1
}

// Before the records go in which a transaction began, the segment that stays gets a snapshot, if it
// has none that can be read.
func TestASnapshotStaysWithoutTheRecords(t *testing.T) {
	if first := truncatedWithoutSnapshot(t, broken{}); first != 0 {
		t.Errorf("open since %d", first)
	}
}

// If that snapshot cannot be written, the start does not move, so that no start of the broker
// removes the records.
func TestI12TheRecordsStayWithoutASnapshot(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d, l := withoutSnapshots(t, errs, broken{})
	full := errs.Add(errfs.Rule{Ops: errfs.Create, Path: "*.producers*", Err: syscall.ENOSPC})
	if err := l.SetLogStart(l.active().Base()); !errors.Is(err, ErrFailed) || full.Hits() == 0 {
		t.Errorf("the start moves: %v, after %d attempts at a snapshot", err, full.Hits())
	}
	must(t, d.checkpoint(nil))
	errs.Clear()
	again := mustOpen(t, disk.KillImage(1), "sync").Logs()[0]
	must(t, again.Truncate(again.Ends().LogEnd-1))
	if p, known := again.Producer(7); !known || p.First != 0 {
		t.Errorf("after a start it is open since %d, %v", p.First, known)
	}
	must(t, l.SetLogStart(l.active().Base()))
	must(t, l.Truncate(l.Ends().LogEnd-1))
	if p, known := l.Producer(7); !known || p.First != 0 {
		t.Errorf("it is open since %d, %v", p.First, known)
	}
}

// Records that cannot be read can be deleted, and retention removes them, although the segment that
// stays has no snapshot.
func TestUnreadableRecordsCanBeDeleted(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	_, l := withoutSnapshots(t, errs, broken{})
	errs.Add(errfs.Rule{Ops: errfs.Read, Path: l.segments[0].Path(), Err: syscall.EIO})
	must(t, l.SetLogStart(l.active().Base()))
	if len(l.segments) != 1 || l.Ends().LogStart != l.active().Base() {
		t.Errorf("%d segments, %+v", len(l.segments), l.Ends())
	}
}

// A truncation finds an open transaction although its first records were deleted and the power was
// lost.
func TestATruncationReopensATransaction(t *testing.T) {
	if first := truncatedOpen(t, broken{}); first != 0 {
		t.Errorf("open since %d", first)
	}
}

// retainedOpen returns the log start after retention of everything while a transaction is open.
func retainedOpen(t *testing.T, b broken) int64 {
	d := mustOpen(t, vfs.Memory(), "sync", func(o *Options) { o.broken = b })
	l := kept(t, d, keeping("sync", 1, -1))
	lead(l)
	l.Observe(idle{})
	putAt(t, l, 3, 1500, 1)
	ok(t, transact(l, inTxn(t, 7, 0, 0, 1500)))
	putAt(t, l, 3, 1500, 1)
	must(t, l.flushAndSync())
	d.applyRetention()
	return l.Ends().LogStart
}

// Retention keeps the records of an open transaction, and everything after them.
func TestRetentionKeepsAnOpenTransaction(t *testing.T) {
	if start := retainedOpen(t, broken{}); start != 3 {
		t.Errorf("the log starts at %d, the transaction at 3", start)
	}
}

// A follower knows the same of its leader's transactions, also after a start, and after
// DeleteRecords has moved its start.
func TestAFollowerKnowsTheTransactions(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	for id := range int64(3) {
		ok(t, transact(l, inTxn(t, id, 0, 0, 10)))
	}
	ok(t, endTxn(l, 1, 1, record.Abort, producers.Sender{}))
	ok(t, endTxn(l, 2, 1, record.Commit, producers.Sender{}))
	ok(t, transact(l, inTxn(t, 2, 1, 0, 10)))
	synced(t, l)
	disk := crashfs.New(1)
	copyOf := makeLogs(t, mustOpen(t, disk, "sync"), 1, "sync")[0]
	s, err := l.Read(0, math.MaxInt64, math.MaxInt, true)
	must(t, err)
	defer s.Release()
	ok(t, followFrom(copyOf, 0, record.Batch(slices.Concat(s.Parts...))))
	synced(t, copyOf)
	same := func(what string, l2 *Log) {
		t.Helper()
		want, got := l.Producers(), l2.Producers()
		for i := range want {
			want[i].Seen, got[i].Seen, want[i].Since, got[i].Since = 0, 0, 0, 0
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || l2.FirstUnstable(math.MaxInt64) != l.FirstUnstable(math.MaxInt64) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	same("a follower", copyOf)
	same("a start", mustOpen(t, disk.KillImage(1), "sync").Logs()[0])
	must(t, copyOf.SetLogStart(5))
	same("a later log start", copyOf)
	same("a start after it", mustOpen(t, disk.KillImage(1), "sync").Logs()[0])
}

// A start removes a producer snapshot that was not complete.
func TestAStartRemovesAnUnfinishedSnapshot(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 1, 10)
	name := path.Join(l.path, segment.Name(0)+segment.ProducersSuffix+".tmp")
	must(t, vfs.WriteFile(disk, name, []byte("half"), true))
	image := disk.KillImage(1)
	mustOpen(t, image, "sync")
	if _, err := image.Stat(name); err == nil {
		t.Error("it is still there")
	}
}

// After compactions that removed all records of its transactions, a log still shows what must be
// known of each producer: a replica may have nothing else.
func TestACompactedLogShowsItsProducers(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync")
	lead(l)
	for epoch := range int16(3) {
		for id := range int64(3) {
			ok(t, transact(l, inTxn(t, id, epoch, 0, 10)))
			ok(t, endTxn(l, id, epoch+1, record.ControlType(id%2), producers.Sender{}))
		}
	}
	ok(t, transact(l, inTxn(t, 2, 3, 0, 10)))
	ok(t, endTxn(l, 2, 4, record.Commit, producers.Sender{}))
	for range 3 { // a marker goes in a later pass than the records of its transaction
		put(t, l, 1, 10)
		must(t, l.roll())
		compactAll(t, d)
	}
	var known producers.State
	records := 0
	for _, s := range l.segments {
		must(t, s.Batches(0, func(b record.Batch) error {
			if b.Transactional() && !b.Control() {
				records += int(b.Records())
			}
			known.Add(b, l.dir.now())
			return nil
		}))
	}
	for _, want := range l.Producers() {
		got, _ := known.Producer(want.ID)
		if got.Seen, want.Seen, got.Since, want.Since = 0, 0, 0, 0; got != want {
			t.Errorf("the log shows %+v, want %+v", got, want)
		}
	}
	if records != 1 { // the last value of the key
		t.Errorf("%d records of transactions are left", records)
	}
}

// transactionScript is the work of TestTransactionsAtEveryCall: transactions over several segments,
// with everything that moves what a start depends on.
func transactionScript(d *Dir, l *Log) {
	a := func(b []byte) { transact(l, b) }
	in := func(id int64, epoch int16, seq int32) record.Batch {
		w := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: id, Epoch: epoch, Sequence: seq}, Transactional: true})
		w.Append(1, nil, make([]byte, 100), nil)
		b, _ := w.Build()
		return b
	}
	for epoch := range int16(3) {
		a(in(1, epoch, 0))
		a(in(2, 0, int32(epoch)))
		_ = l.flush()
		endTxn(l, 1, epoch+1, record.ControlType(epoch%2), producers.Sender{Bumps: true})
		_ = d.checkpoint(nil)
		a(in(1, epoch+1, 0))
		_ = l.roll()
		endTxn(l, 1, epoch+1, record.Abort, producers.Sender{})
		if epoch == 1 {
			endTxn(l, 2, 0, record.Commit, producers.Sender{})
			_ = l.SetLogStart(2)
		}
		_ = d.checkpoint(nil)
		_ = l.flushAndSync()
	}
	_ = l.Truncate(l.Ends().LogEnd - 1)
	endTxn(l, 2, 0, record.Abort, producers.Sender{})
}

// Whatever call the power is lost at, a start knows of the transactions what the batches say.
func TestTransactionsAtEveryCall(t *testing.T) {
	t.Parallel()
	calls := 0
	for at := 1; ; at += points(7) {
		disk := crashfs.New(uint64(at))
		d, err := openDir(disk, "sync")
		must(t, err)
		l := makeLogs(t, d, 1, "sync")[0]
		l.Observe(alone{l: l})
		disk.CrashDuring(disk.Ops() + at)
		transactionScript(d, l)
		crashed := disk.Crashed()
		if !crashed {
			disk.CrashAt(disk.Ops())
		}
		_ = d.Close()
		for _, mode := range crashfs.Modes() {
			if why := batchesSay(disk.PowerLossImage(mode, uint64(at))); why != "" {
				t.Fatalf("power lost during call %d, %s: %s", at, mode, why)
			}
		}
		if calls++; !crashed {
			break
		}
	}
	if calls < 60/points(7) {
		t.Errorf("the script has %d calls only", calls)
	}
}

// batchesSay starts a directory and returns what its log knows of transactions and its batches do
// not say. Batches below the log start may be gone, and with them what they said.
func batchesSay(image vfs.FS) (why string) {
	d, err := openDir(image, "sync")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = d.Close() }()
	if len(d.Logs()) == 0 {
		return "the log is gone"
	}
	l := d.Logs()[0]
	var said producers.State
	segments, err := l.snapshot()
	if err != nil {
		return err.Error()
	}
	for i, s := range segments {
		if known, err := l.loadProducers(s); i == 0 && err == nil {
			said = known
		}
		if err := s.Batches(0, func(b record.Batch) error { said.Add(b, l.dir.now()); return nil }); err != nil {
			return err.Error()
		}
	}
	for _, got := range l.Producers() {
		want, known := said.Producer(got.ID)
		if want.Seen, got.Seen, want.Since, got.Since = 0, 0, 0, 0; got != want {
			return fmt.Sprintf("the log knows %+v, its batches say %+v (%v)", got, want, known)
		}
	}
	if said.Advance(math.MaxInt64); len(l.Producers()) != said.Len() || l.FirstUnstable(math.MaxInt64) != said.FirstUnstable() {
		return fmt.Sprintf("%d producers, unstable from %d; the batches say %d, %d", len(l.Producers()), l.FirstUnstable(math.MaxInt64),
			said.Len(), said.FirstUnstable())
	}
	return ""
}

// The open transactions of all logs together are bounded, and those of a deleted log count no
// longer (S4).
func TestOpenTransactionsOfAllLogsAreBounded(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	logs := makeLogs(t, d, 2, "sync")
	open := func() int64 { return d.opt.open.Load() }
	ok(t, transact(logs[0], inTxn(t, 7, 0, 0, 10)))
	ok(t, transact(logs[1], inTxn(t, 7, 0, 0, 10)))
	ok(t, transact(logs[1], inTxn(t, 8, 0, 0, 10)))
	if open() != 3 {
		t.Fatalf("%d are open", open())
	}
	d.opt.open.Add(producers.MaxOpenEverywhere - 3)
	if a := transact(logs[0], inTxn(t, 9, 0, 0, 10)); !errors.Is(a.Err, ErrTooManyTransactions) {
		t.Errorf("one too many: %v", a.Err)
	}
	ok(t, send(logs[0], inTxn(t, 7, 0, 1, 10))) // continues one
	ok(t, endTxn(logs[0], 7, 1, record.Commit, producers.Sender{}))
	ok(t, transact(logs[0], inTxn(t, 9, 0, 0, 10)))
	ok(t, endTxn(logs[1], 8, 1, record.Commit, producers.Sender{}))
	must(t, d.Delete(logs[1]))
	for range 2 {
		if n := open() - (producers.MaxOpenEverywhere - 3); n != 1 {
			t.Errorf("%d are open after the deletion of a log", n)
		}
		logs[1].FirstUnstable(math.MaxInt64) // a reader has had the log since before
	}
}

// The oldest open transaction is that with the lowest first offset, and began when its first batch
// arrived. It is as old after clean stops, and after a kill, when only the timestamps of the
// batches tell. A timestamp from the future counts as the time of the start.
func TestTheOldestTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		if p, held := l.OldestTransaction(); held || l.OpenTransactions() != nil {
			t.Errorf("%+v", p)
		}
		begin := time.Now()
		append := func(l *Log, id int64, timestamp time.Time) {
			b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: id}, Transactional: true})
			b.Append(timestamp.UnixMilli(), nil, []byte("v"), nil)
			data, err := b.Build()
			must(t, err)
			ok(t, transact(l, data))
		}
		append(l, 8, begin)
		time.Sleep(time.Second)
		append(l, 7, begin.Add(time.Hour))
		time.Sleep(time.Second)
		ok(t, send(l, inTxn(t, 8, 0, 1, 10)))
		want := func(l *Log, second int64) {
			t.Helper()
			x, held := l.OldestTransaction()
			if all := l.OpenTransactions(); !held || !x.Open || x.Producer.ID != 8 || x.Producer.First != 0 ||
				x.Since != begin.UnixMilli() || len(all) != 2 || all[0] != x.Producer || all[0].Since != x.Since ||
				all[1].ID != 7 || all[1].Since != begin.UnixMilli()+second {
				t.Errorf("%+v of %+v", x, all)
			}
		}
		want(l, 1000)
		disk = disk.KillImage(1)
		must(t, d.Close())
		time.Sleep(time.Minute)
		for range 2 {
			d = mustOpen(t, disk, "sync")
			want(d.Logs()[0], 62_000)
			must(t, d.Close())
			time.Sleep(time.Minute)
		}
	})
}
