package storage

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// withRules returns a log of a directory from which rules were removed.
func withRules(t *testing.T, b broken) *Log {
	t.Helper()
	d := mustOpen(t, crashfs.New(1), "sync", func(o *Options) { o.broken = b })
	return makeLogs(t, d, 1, "sync")[0]
}

// History 18 of the cluster's design: the link loses a frame. What follows it is not taken for the
// end of a compaction gap.
func TestALostFrameIsNotAGap(t *testing.T) {
	if wrong := losesFrame(t, broken{}); wrong != "" {
		t.Error(wrong)
	}
}

func losesFrame(t *testing.T, b broken) (wrong string) {
	l := withRules(t, b)
	if a := followFrom(l, 0, at(t, 0, 1, 1, 1, 1)); a.Err != nil {
		t.Fatal(a.Err)
	}
	for _, prev := range []int64{10, 2} { // [3, 10) was lost; and a frame that came twice
		if a := followFrom(l, prev, at(t, 10, 1, 1)); !errors.Is(a.Err, ErrGap) || l.Ends().LogEnd != 3 {
			return fmt.Sprintf("append after %d to a log that ends at 3: %v, %+v", prev, a.Err, l.Ends())
		}
	}
	if a := appendFrame(l, Append{PrevEnd: 10, GapEnd: 20, GapEpoch: 1}); !errors.Is(a.Err, ErrGap) {
		return fmt.Sprintf("a gap after 10: %v", a.Err)
	}
	if a := followFrom(l, 3, at(t, 10, 1, 1)); a.Err != nil || l.Ends().LogEnd != 11 {
		return fmt.Sprintf("compaction removed [3, 10) from the leader: %v", a.Err)
	}
	return ""
}

// History 19: appends wait in the queue when the leader changes. They do not follow records of the
// next epoch.
func TestAQueuedAppendOfAnEarlierRoleIsRefused(t *testing.T) {
	for _, leads := range []bool{false, true} {
		if wrong := outlivesRole(t, leads, broken{}); wrong != "" {
			t.Errorf("leads %v: %s", leads, wrong)
		}
	}
}

// follows is the kind of append that a log in a role accepts: one that follows, or that leads.
var follows = map[bool]Kind{true: Assigned, false: Client}

// outlivesRole queues appends of epoch 5, and makes the log lead, or follow, in epoch 6 before they
// are committed.
func outlivesRole(t *testing.T, leads bool, b broken) (wrong string) {
	l := withRules(t, b)
	l.SetLeaderEpoch(5, !leads)
	old := &Append{LeaderEpoch: 5, Batches: testBatch(t, 10, nil), Sink: make(sink, 1)}
	if leads {
		old.Kind, old.Batches = Assigned, at(t, 0, 5, 1)
	}
	l.acquireCommit()
	l.Append(old, nil)
	l.SetLeaderEpoch(6, leads)
	l.releaseCommit()
	if <-old.Sink.(sink); !errors.Is(old.Err, ErrFencedEpoch) || l.Ends().LogEnd != 0 {
		return fmt.Sprintf("an append of epoch 5 in epoch 6: %v", old.Err)
	}
	for name, a := range map[string]*Append{
		"of a later epoch":  {LeaderEpoch: 7, Kind: follows[!leads]},
		"of the other role": {LeaderEpoch: 6, Kind: follows[leads]},
	} {
		if a.Batches = testBatch(t, 10, nil); a.Kind == Assigned {
			a.Batches = at(t, 0, 6, 1)
		}
		a.Sink = make(sink, 1)
		l.Append(a, nil)
		if <-a.Sink.(sink); !errors.Is(a.Err, ErrFencedEpoch) {
			return fmt.Sprintf("an append %s: %v", name, a.Err)
		}
	}
	return ""
}

// Records of a leader never have an epoch above the leader's or below that of earlier records.
func TestEpochsOfReplicatedRecordsAreInOrder(t *testing.T) {
	l := withRules(t, broken{})
	l.SetLeaderEpoch(7, false)
	next := func(batches ...record.Batch) error {
		a := &Append{Kind: Assigned, LeaderEpoch: 7, PrevEnd: l.Ends().LogEnd, Sink: make(sink, 1)}
		for _, b := range batches {
			a.Batches = append(a.Batches, b...)
		}
		l.Append(a, nil)
		return (<-a.Sink.(sink)).Err
	}
	must(t, next(at(t, 0, 3, 1), at(t, 1, 5, 1)))
	for name, bad := range map[string][]record.Batch{
		"above the leader's":      {at(t, 2, 8, 1)},
		"below the last":          {at(t, 2, 4, 1)},
		"decreasing in an append": {at(t, 2, 7, 1), at(t, 3, 6, 1)},
	} {
		if err := next(bad...); !errors.Is(err, ErrFencedEpoch) || l.Ends().LogEnd != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, a := range map[string]Append{
		"empty gap":           {PrevEnd: 2, GapEnd: 2, GapEpoch: 5},
		"gap of an old epoch": {PrevEnd: 2, GapEnd: 3, GapEpoch: 4},
	} {
		if got := appendFrame(l, a); got.Err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// An epoch without records of its own is forgotten by a leader that follows now: its successor may
// send records of earlier epochs.
func TestAFollowerForgetsAnEpochWithoutRecords(t *testing.T) {
	l := withRules(t, broken{})
	l.SetLeaderEpoch(4, true)
	put(t, l, 3, 10)
	l.SetLeaderEpoch(5, true)
	if epoch, end := l.LastEpoch(); epoch != 5 || end != 3 {
		t.Errorf("a leader's last epoch is %d, its end %d", epoch, end)
	}
	l.SetLeaderEpoch(6, false)
	if epoch, end := l.LastEpoch(); epoch != 4 || end != 3 {
		t.Errorf("a follower's last epoch is %d, its end %d", epoch, end)
	}
	l.SetLeaderEpoch(6, true) // no epoch has two leaders
	a := &Append{Kind: Assigned, LeaderEpoch: 6, PrevEnd: 3, Batches: at(t, 3, 4, 1), Sink: make(sink, 1)}
	l.Append(a, nil)
	if <-a.Sink.(sink); a.Err != nil || l.EpochAt(3) != 4 {
		t.Errorf("a record of epoch 4 from the leader of 6: %v, it counts as of epoch %d", a.Err, l.EpochAt(3))
	}
}

// A log accepts nothing before it has a role, and nothing under an epoch below that of its records.
func TestALogWithoutARoleAcceptsNothing(t *testing.T) {
	disk := crashfs.New(1)
	l := makeLogs(t, mustOpen(t, disk, "sync"), 1, "sync")[0]
	l.SetLeaderEpoch(3, true)
	put(t, l, 1, 10)
	d, err := openUnled(disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync")
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	l = byPartition(t, d, 0)
	try := func(epoch int32) error {
		a := &Append{LeaderEpoch: epoch, Batches: testBatch(t, 10, nil), Sink: make(sink, 1)}
		l.Append(a, nil)
		return (<-a.Sink.(sink)).Err
	}
	if err := try(noEpoch); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("append to a log without a role: %v", err)
	}
	l.SetLeaderEpoch(2, true)
	l.ResumeEpoch(2)
	if err := try(2); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("append of epoch 2 behind one of epoch 3: %v", err)
	}
	l.SetLeaderEpoch(4, true)
	if err := try(4); err != nil {
		t.Error(err)
	}
}

// taker is an observer that copies what the log appends to a follower before the journal has it, as
// a stream does.
type taker struct {
	noopObserver
	from, to *Log
	err      error
	pushes   int
	assigned journal.LSN // at the last push
	reverted chan int64
}

// Appended implements Observer.
func (x *taker) Appended(b *groupcommit.Batch) {
	if b == nil {
		x.Push()
		return
	}
	b.AddPusher(x)
}

// Push implements groupcommit.Pusher.
func (x *taker) Push() {
	x.pushes++
	x.assigned = x.from.dir.journal.Assigned()
	s, ok, err := x.from.ReadSpanMemory(x.to.Ends().LogEnd, 1<<20)
	if err != nil || !ok {
		x.err = fmt.Errorf("what was appended is not in memory: %v, %w", ok, err)
		return
	}
	defer s.Release()
	a := &Append{Kind: Assigned, LeaderEpoch: epochOf(x.to), PrevEnd: s.Start, Batches: slices.Concat(s.Parts...), Sink: make(sink, 1)}
	x.to.Append(a, nil)
	x.err = (<-a.Sink.(sink)).Err
}

// Reverted implements Observer.
func (x *taker) Reverted(end int64, _ error) {
	select {
	case x.reverted <- end:
	default:
	}
}

// stream returns a leader and a follower in epoch 5, connected.
func stream(t *testing.T, leaderDisk *errfs.FS, b broken) (leader, follower *Log, x *taker) {
	t.Helper()
	leader = makeLogs(t, mustOpen(t, leaderDisk, "sync", func(o *Options) { o.broken = b }), 1, "sync")[0]
	follower = makeLogs(t, mustOpen(t, crashfs.New(2), "sync"), 1, "sync")[0]
	leader.SetLeaderEpoch(5, true)
	follower.SetLeaderEpoch(5, false)
	x = &taker{from: leader, to: follower, reverted: make(chan int64, 1)}
	leader.Observe(x)
	return leader, follower, x
}

// A stream gets the records of a batch once, before the journal has written any of them.
func TestAStreamIsServedBeforeTheJournalWrites(t *testing.T) {
	leader, follower, x := stream(t, errfs.New(crashfs.New(1)), broken{})
	before := leader.dir.journal.Assigned()
	var b groupcommit.Batch
	var all []*Append
	for range 5 {
		a := &Append{Batches: testBatch(t, 100, nil), LeaderEpoch: 5, Sink: make(sink, 1)}
		leader.Append(a, &b)
		all = append(all, a)
	}
	b.Run()
	for _, a := range all {
		if <-a.Sink.(sink); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	if x.err != nil || x.pushes != 1 || x.assigned != before || follower.Ends().LogEnd != 5 {
		t.Errorf("%d pushes, at LSN %d, before %d, the follower has %+v: %v", x.pushes, x.assigned, before, follower.Ends(), x.err)
	}
	synced(t, leader)
	if wrong := differ(leader, follower); wrong != "" {
		t.Error(wrong)
	}
}

// parts makes a follower of a later epoch continue its leader's log: it cuts what diverges.
func parts(t *testing.T, leader, follower *Log) {
	t.Helper()
	follower.SetLeaderEpoch(epochOf(leader), false)
	for range 10 {
		epoch, end := follower.LastEpoch()
		e, until := leader.EpochEnd(epoch)
		if e == epoch && end <= until {
			return
		}
		_, own := follower.EpochEnd(e)
		must(t, follower.Truncate(min(until, own)))
	}
	t.Fatal("the handshake does not end")
}

// History 5: the leader's journal fails when a follower already has what the leader takes back. The
// leader does not continue in that epoch, and in the next one the follower cuts its copy.
func TestALeaderThatTakesRecordsBackIsHeld(t *testing.T) {
	if wrong := takesBack(t, broken{}); wrong != "" {
		t.Error(wrong)
	}
}

func takesBack(t *testing.T, b broken) (wrong string) {
	errs := errfs.New(crashfs.New(1))
	leader, follower, x := stream(t, errs, b)
	put(t, leader, 3, 100)
	errs.Add(inJournal(leader.dir, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
	appendInBatch(leader, &Append{Batches: testBatch(t, 50, nil), LeaderEpoch: 5, Sink: make(sink, 1)})
	select {
	case <-x.reverted:
	case <-time.After(patience):
		t.Fatal("nothing was taken back")
	}
	synced(t, follower)
	if l, f := leader.Ends().LogEnd, follower.Ends().LogEnd; l != 3 || f != 4 {
		t.Fatalf("the leader ends at %d, the follower at %d", l, f)
	}
	eventually(t, "the directory is open again", func() bool { return leader.Err() == nil })
	other := &Append{Batches: testBatch(t, 70, nil), LeaderEpoch: 5, Sink: make(sink, 1)}
	leader.Observe(noopObserver{})
	leader.Append(other, nil)
	if <-other.Sink.(sink); !errors.Is(other.Err, ErrFencedEpoch) {
		return fmt.Sprintf("after the journal failed, an append of the same epoch: %v; leader and follower: %s", other.Err,
			differ(leader, follower))
	}
	leader.SetLeaderEpoch(6, true)
	if a := send(leader, testBatch(t, 70, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	synced(t, leader)
	parts(t, leader, follower)
	must(t, replicateAs(leader, follower))
	return differ(leader, follower)
}

// replicateAs copies the rest of a leader's log to a follower of the same epoch.
func replicateAs(leader, follower *Log) error {
	x := &taker{from: leader, to: follower}
	for follower.Ends().LogEnd < leader.Ends().LogEnd && x.err == nil {
		x.Push()
	}
	return x.err
}

// The only replica of a partition lifts the hold, and continues in its epoch.
func TestTheOnlyReplicaContinuesItsEpoch(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	leader, _, _ := stream(t, errs, broken{})
	leader.Observe(alone{l: leader})
	put(t, leader, 3, 100)
	errs.Add(inJournal(leader.dir, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
	appendInBatch(leader, &Append{Batches: testBatch(t, 50, nil), LeaderEpoch: 5, Sink: make(sink, 1)})
	eventually(t, "it accepts records", func() bool { return leader.Ends().LogEnd == 3 && leader.Err() == nil })
	if epoch, end := leader.LastEpoch(); epoch != 5 || end != 3 {
		t.Errorf("epoch %d, end %d", epoch, end)
	}
	put(t, leader, 1, 10)
	holds(t, leader, 4)
}

// History 4: the leader loses power when a follower already has what its disk has not. It is back
// at once, in a new epoch, and the follower cuts its copy.
func TestALeaderThatLostPowerLeadsANewEpoch(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	leader, follower, x := stream(t, errs, broken{})
	put(t, leader, 3, 100)
	hold, let := gated(t)
	errs.Add(inJournal(leader.dir, errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-hold }}))
	a := &Append{Batches: testBatch(t, 50, nil), LeaderEpoch: 5, Sink: make(sink, 1)}
	leader.Append(a, nil)
	<-a.Sink.(sink)
	image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	let()
	synced(t, follower)
	if x.err != nil || follower.Ends().LogEnd != 4 {
		t.Fatalf("the follower has %+v: %v", follower.Ends(), x.err)
	}
	d, err := openUnled(image, "sync")
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	leader = byPartition(t, d, 0)
	old := &Append{Batches: testBatch(t, 70, nil), LeaderEpoch: 5, Sink: make(sink, 1)}
	leader.Append(old, nil)
	if <-old.Sink.(sink); !errors.Is(old.Err, ErrFencedEpoch) {
		t.Errorf("an append of the epoch before the power loss: %v", old.Err)
	}
	leader.SetLeaderEpoch(6, true)
	put(t, leader, 1, 70)
	parts(t, leader, follower)
	must(t, replicateAs(leader, follower))
	synced(t, follower)
	if wrong := differ(leader, follower); wrong != "" {
		t.Error(wrong)
	}
}

// A follower whose clock is ahead deletes nothing that its leader keeps.
func TestOnlyALeaderAppliesRetention(t *testing.T) {
	if wrong := deletesAsFollower(t, broken{}); wrong != "" {
		t.Error(wrong)
	}
}

func deletesAsFollower(t *testing.T, b broken) (wrong string) {
	l := withRules(t, b)
	l.Observe(idle{})
	put(t, l, 10, 1000)
	must(t, l.flushAndSync())
	l.SetLeaderEpoch(9, false)
	l.Configure(keeping("sync", 1000, -1)) // all records are of 1970
	l.dir.applyRetention()
	if start := l.Ends().LogStart; start != 0 {
		return fmt.Sprintf("a log that follows begins at %d", start)
	}
	l.SetLeaderEpoch(10, true)
	l.dir.applyRetention()
	if l.Ends().LogStart == 0 {
		t.Error("a log that leads keeps everything")
	}
	return ""
}
