package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The names of these tests refer to histories: sequences of faults that an earlier design did not
// survive.

// copied appends one batch of a leader's and waits until the log has accepted it.
func copied(t testing.TB, p *Partition, epoch int32, offset, high int64) error {
	t.Helper()
	accepted := make(chan error, 1)
	replicate(p, epoch, offset, high, leaders(t, epoch, offset), func(err error) { accepted <- err })
	select {
	case err := <-accepted:
		return err
	case <-time.After(patience):
		t.Fatal("the append never ends")
		return nil
	}
}

// leaders returns a batch of one record as the leader of an epoch sends it.
func leaders(t testing.TB, epoch int32, offset int64) []byte {
	t.Helper()
	b := record.Batch(batch(t, 1).Bytes)
	b.SetBaseOffset(offset)
	b.SetLeaderEpoch(epoch)
	return b
}

// A follower restarts. Its high watermark is the one that it knew, not its log end: what is beyond
// may be truncated, so no consumer may see it and no compaction may depend on it (15).
func TestARestartedFollowerShowsOnlyWhatWasCommitted(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.shared(idA, 2, 3)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	p := l.partition(t, idA, 0)
	must(t, p.Follow(3))
	for offset := range int64(4) {
		must(t, copied(t, p, 3, offset, 2))
	}
	waitFor(t, "it is durable", func() bool { return p.Ends().Ack == 4 })
	must(t, l.storage.Close())

	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	p = l.partition(t, idA, 0)
	if high, epoch := p.High(); high != 2 || epoch != 3 || p.Ends().LogEnd != 4 {
		t.Fatalf("high watermark %d of epoch %d, %+v", high, epoch, p.Ends())
	}
	must(t, c.change(metadata.TopicPartition{Topic: idA}, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = self, 4 }))
	must(t, c.apply(t, l.Manager))
	if high := p.Ends().HighWatermark; high != 2 {
		t.Errorf("as leader without its follower: %d", high)
	}
	must(t, c.change(metadata.TopicPartition{Topic: idA}, func(p *metadata.Partition) { p.ISR = []int32{self} }))
	must(t, c.apply(t, l.Manager))
	waitFor(t, "it commits as the only replica in sync", func() bool { return p.Ends().HighWatermark == 4 })
}

// A follower truncates above its high watermark only (16), unless an unclean election has voided
// what was committed (42).
func TestCommittedRecordsAreOnlyTruncatedAfterAnUncleanElection(t *testing.T) {
	p := lone(t, vfs.Memory())
	follow(p, 2, 5, pair, pair)
	must(t, p.Follow(5))
	for offset := range int64(4) {
		must(t, copied(t, p, 5, offset, 3))
	}
	waitFor(t, "the high watermark", func() bool { return p.Ends().HighWatermark == 3 })
	r := roleFor(p, 2, 6, pair, pair)
	p.SetRole(r)
	for _, x := range []struct {
		to, unclean int64
		lost        bool
		err         error
	}{{3, 0, false, nil}, {2, 0, false, ErrDiverged}, {2, 5, false, ErrDiverged}, {2, 6, true, nil}} {
		next := *r
		next.Unclean = int32(x.unclean)
		p.SetRole(&next)
		if lost, err := p.MayTruncate(6, x.to); lost != x.lost || !errors.Is(err, x.err) || (err != nil) != (x.err != nil) {
			t.Errorf("%+v: lost %t, %v", x, lost, err)
		}
	}
	if _, err := p.MayTruncate(5, 4); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("asked by an older leader: %v", err)
	}
}

// After an unclean election a follower serves nothing before it knows what is still committed, also
// if it cannot truncate its log because its directory fails.
func TestARecordThatAnUncleanElectionMayHaveDiscardedIsNotServed(t *testing.T) {
	p := lone(t, vfs.Memory())
	follow(p, 2, 5, pair, pair)
	must(t, p.Follow(5))
	for offset := range int64(4) {
		must(t, copied(t, p, 5, offset, 3))
	}
	waitFor(t, "the high watermark", func() bool { return p.Ends().HighWatermark == 3 })
	read := func() error {
		res, err := p.Read(ReadRequest{Offset: 1, MaxBytes: 1 << 20, CurrentEpoch: -1, FetchedEpoch: -1, AnyReplica: true})
		res.Release()
		return err
	}
	follow(p, 2, 6, pair, pair)
	if err := read(); err != nil {
		t.Errorf("after a clean election: %v", err)
	}
	r := roleFor(p, 2, 7, pair, pair)
	r.Unclean = 7
	p.SetRole(r)
	for _, when := range []string{"before the leader's answer", "with a log that agrees"} {
		if err := read(); !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s: %v", when, err)
		}
		if to := p.Stable(); to != 0 {
			t.Errorf("%s: compaction trusts what is below %d", when, to)
		}
		must(t, p.Follow(7))
	}
	must(t, p.LeaderHigh(7, 3)) // the same one as before
	if err, to := read(), p.Stable(); err != nil || to != 3 {
		t.Errorf("the leader has confirmed them: %v, stable below %d", err, to)
	}
}

// What was queued in one epoch is not appended in the next: neither a leader's batches when the
// follower is made leader, nor a client's when the leader is deposed (19).
func TestWhatIsQueuedInAnEpochIsNotAppendedInTheNext(t *testing.T) {
	p := lone(t, vfs.Memory())
	follow(p, 2, 5, pair, pair)
	entered, release, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go replicate(p, 5, 0, 0, leaders(t, 5, 0), func(err error) { close(entered); <-release; first <- err })
	<-entered
	queued := make(chan error, 1)
	replicate(p, 5, 1, 0, leaders(t, 5, 1), func(err error) { queued <- err })
	lead(p, 6, pair, pair)
	close(release)
	must(t, <-first)
	if err := <-queued; !errors.Is(err, storage.ErrFencedEpoch) || p.Ends().LogEnd != 1 {
		t.Errorf("the leader of epoch 5: %v, %+v", err, p.Ends())
	}
	head, free := holdCommit(t, p)
	late := begin(t, p, AcksAll, 1)
	follow(p, 2, 7, pair, pair)
	close(free)
	must(t, head.wait(t))
	if err := late.wait(t); err == nil || p.Ends().LogEnd != 2 {
		t.Errorf("a client of epoch 6: %v, %+v", err, p.Ends())
	}
}

// A follower joins the ISR when it has everything below the start of the leader's epoch. Below
// that, an earlier leader may have committed more than this one knows (21).
func TestAFollowerJoinsAtTheStartOfTheEpoch(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 1, pair, pair)
	for range 4 {
		must(t, begin(t, p, AcksLeader, 1).wait(t))
	}
	lead(p, 2, pair, pair[:1])
	awaitNote(t, p)
	if p.Ends().HighWatermark != 4 || p.role.Load().epochStart != 4 {
		t.Fatalf("high watermark %d", p.Ends().HighWatermark)
	}
	acknowledge(p, 2, 2, 3)
	if change, _, ok := p.Propose(); ok {
		t.Errorf("below the start of the epoch: %+v", change)
	}
	acknowledge(p, 2, 2, 4)
	change, epoch, ok := p.Propose()
	if !ok || epoch != 2 || len(change.ISR) != 2 {
		t.Errorf("at the start of the epoch: %+v, %t", change, ok)
	}
}

// A leader was cut off or paused, so that another one may lead. An acknowledgement of another
// in-sync replica still counts; what only this broker has is not acknowledged (22, 73).
func TestWithoutALeaseOnlyOtherReplicasAcknowledge(t *testing.T) {
	p := lone(t, vfs.Memory())
	var lease atomic.Bool
	lease.Store(true)
	p.env.lease = lease.Load
	lead(p, 1, pair, pair)
	must(t, begin(t, p, AcksLeader, 1).wait(t))
	all := begin(t, p, AcksAll, 1)
	first, release := holdCommit(t, p)
	one := begin(t, p, AcksLeader, 1) // accepted with a lease
	lease.Store(false)
	close(release)
	must(t, first.wait(t))
	if err := one.wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("acks=1 that waited: %v", err)
	}
	if err := begin(t, p, AcksLeader, 1).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("acks=1: %v", err)
	}
	waitFor(t, "its own end", func() bool { return p.Ends().Ack >= 2 })
	acknowledge(p, 2, 1, 2)
	must(t, all.wait(t))
	lead(p, 1, pair, pair[:1])
	if err := begin(t, p, AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("acks=all of a lone replica in sync: %v", err)
	}
	lead(p, 2, pair[:1], pair[:1])
	must(t, begin(t, p, AcksAll, 1).wait(t)) // the only replica: no other can be elected
}

// A leader was cut off, another one was elected, and a producer has written to that one. The former
// leader does not answer that batches are missing: the producer would begin a new epoch and repeat
// what the other log has.
func TestALeaderWithoutALeaseDoesNotJudgeSequences(t *testing.T) {
	p := lone(t, vfs.Memory())
	var lease atomic.Bool
	lease.Store(true)
	p.env.lease = lease.Load
	lead(p, 5, pair, pair)
	send := func(sequence int32) *outcome {
		w := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 7, Sequence: sequence}})
		w.Append(1000, nil, []byte("v"), nil)
		b, err := w.Build()
		must(t, err)
		d := &outcome{ended: make(chan struct{}, 8)}
		d.LeaderEpoch, d.Acks, d.Batches = -1, AcksAll, record.Accepted{Bytes: b, Batches: 1, Records: 1}
		d.Done = func(*Append) { d.times++; d.ended <- struct{}{} }
		p.Append(&d.Append, nil)
		return d
	}
	first := send(0)
	acknowledge(p, 2, 5, 1)
	must(t, first.wait(t))
	if err := send(9).wait(t); !errors.Is(err, storage.ErrOutOfOrderSequence) {
		t.Errorf("with a lease: %v", err)
	}
	lease.Store(false)
	if err := send(9).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("without a lease: %v", err)
	}
}

// A leader was cut off, another one was elected, and a consumer has records of that one. The former
// leader does not answer that these are lost: the consumer would start again at the beginning.
func TestALeaderWithoutALeaseDoesNotJudgeLaterRecords(t *testing.T) {
	p := lone(t, vfs.Memory())
	var lease atomic.Bool
	lease.Store(true)
	p.env.lease = lease.Load
	lead(p, 5, pair, pair[:1])
	must(t, begin(t, p, AcksLeader, 3).wait(t))
	ahead := map[string]ReadRequest{
		"offset": {Offset: 4, CurrentEpoch: -1, FetchedEpoch: -1, MaxBytes: 1000},
		"epoch":  {Offset: 3, CurrentEpoch: -1, FetchedEpoch: 6, MaxBytes: 1000},
	}
	for name, r := range ahead {
		if _, err := p.Read(r); !errors.Is(err, storage.ErrOffsetOutOfRange) {
			t.Errorf("%s, with a lease: %v", name, err)
		}
	}
	lease.Store(false)
	for name, r := range ahead {
		if _, err := p.Read(r); !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s, without a lease: %v", name, err)
		}
	}
	if _, _, err := p.EpochEnd(-1, 5); !errors.Is(err, ErrNotLeader) {
		t.Errorf("the end of an epoch, without a lease: %v", err)
	}
	for at := int64(0); at <= 3; at++ { // what is committed stays readable
		r, err := p.Read(ReadRequest{Offset: at, CurrentEpoch: -1, FetchedEpoch: 5, MaxBytes: 1000})
		if err != nil || r.DivergingEpoch >= 0 {
			t.Errorf("at %d: %+v, %v", at, r, err)
		}
		r.Slice.Release()
	}
	lead(p, 6, pair[:1], pair[:1])
	if _, err := p.Read(ahead["offset"]); !errors.Is(err, storage.ErrOffsetOutOfRange) {
		t.Errorf("the only replica: %v", err)
	}
}

// A leader has told the controller that its log directory takes no records, and its own metadata
// stand still: another broker leads by now, although the lease is live. It judges no later records,
// and acknowledges nothing alone. Without another broker that can lead, it stays the leader.
func TestALeaderThatAsksForAnotherOneDoesNotJudgeLaterRecords(t *testing.T) {
	p := lone(t, vfs.Memory())
	var unable atomic.Bool
	p.env.lease = func() bool { return true }
	p.env.unable = func(*storage.Dir) bool { return unable.Load() }
	lead(p, 5, pair, pair)
	must(t, begin(t, p, AcksLeader, 3).wait(t))
	check := func(what string, want error, offered bool) {
		t.Helper()
		if _, err := p.Read(ReadRequest{Offset: 100, CurrentEpoch: -1, FetchedEpoch: -1, MaxBytes: 1000}); !errors.Is(err, want) {
			t.Errorf("%s: a read beyond the end: %v", what, err)
		}
		if _, _, err := p.EpochEnd(-1, 5); offered != errors.Is(err, ErrNotLeader) {
			t.Errorf("%s: the end of an epoch: %v", what, err)
		}
		if err := begin(t, p, AcksLeader, 1).wait(t); offered != errors.Is(err, ErrNotLeader) {
			t.Errorf("%s: acks=1: %v", what, err)
		}
		if p.Offered() != offered {
			t.Errorf("%s: offered: %v", what, p.Offered())
		}
	}
	check("able", storage.ErrOffsetOutOfRange, false)
	unable.Store(true)
	check("unable", ErrNotLeader, true)
	other := roleFor(p, self, 6, pair, pair)
	other.View.Replicas[1].Active = false
	p.SetRole(other)
	check("the other one can't lead", storage.ErrOffsetOutOfRange, false)
}

// A leader has lost the controller and another in-sync replica, and clients still reach it (50). It
// sends them away, what waits included. It continues when either is back.
func TestALeaderThatIsCutOffSendsClientsAway(t *testing.T) {
	p := lone(t, vfs.Memory())
	var lease atomic.Bool
	p.env.lease = lease.Load
	lead(p, 1, pair, pair)
	h := acknowledge(p, 2, 1, 0)
	waits := begin(t, p, AcksAll, 1)
	if p.Sweep(); p.CutOff() {
		t.Error("it has a follower")
	}
	p.Unsubscribe(h, progress.StreamGone)
	if !p.Sweep() || p.CutOff() {
		t.Error("all links may have ended and begin again")
	}
	if !p.Sweep() || !p.CutOff() {
		t.Error("it has nothing")
	}
	if err := waits.wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("what waited: %v", err)
	}
	if err := begin(t, p, AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("what comes: %v", err)
	}
	lease.Store(true)
	waits = begin(t, p, AcksAll, 1)
	lease.Store(false)
	acknowledge(p, 2, 1, 2)
	if p.Sweep(); p.CutOff() {
		t.Error("its follower is back")
	}
	must(t, waits.wait(t))
}

// A leader stops together with its followers. What waits for them is answered.
func TestALeaderThatStopsReleasesWhatWaits(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 1, pair, pair)
	acknowledge(p, 2, 1, 0)
	waits := begin(t, p, AcksAll, 1)
	p.release()
	if err := waits.wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("what waited: %v", err)
	}
}

// A leader's log discards records that followers may have. It resigns, and its log accepts nothing
// until a higher epoch (5). The only replica continues at once, unless a former replica has
// subscribed in this epoch (69).
func TestALeaderThatDiscardsRecordsResigns(t *testing.T) {
	for name, x := range map[string]struct {
		replicas []int32
		served   bool
		resigns  bool
	}{
		"with a follower":        {pair, false, true},
		"the only replica":       {pair[:1], false, false},
		"with a former follower": {pair[:1], true, true},
	} {
		t.Run(name, func(t *testing.T) {
			fs := errfs.New(vfs.Memory())
			p := lone(t, fs)
			resigned := make(chan int32, 8)
			p.env.resign = func(_ *Partition, epoch int32) { resigned <- epoch }
			if lead(p, 1, pair, pair[:1]); x.served {
				acknowledge(p, 2, 1, 0)
			}
			lead(p, 1, x.replicas, pair[:1])
			must(t, begin(t, p, AcksLeader, 1).wait(t))
			fault := fs.Add(errfs.Rule{Ops: errfs.Datasync, Err: syscall.EIO})
			if err := begin(t, p, AcksLeader, 1).wait(t); !errors.Is(err, storage.ErrFailed) {
				t.Fatal(err)
			}
			fault.Off()
			if x.resigns {
				if epoch := <-resigned; epoch != 1 {
					t.Errorf("resigned from epoch %d", epoch)
				}
				waitFor(t, "the journal accepts records", func() bool {
					return errors.Is(begin(t, p, AcksLeader, 1).wait(t), storage.ErrFencedEpoch)
				})
				lead(p, 2, x.replicas, pair[:1])
			}
			waitFor(t, "appends succeed", func() bool {
				for x.resigns && len(resigned) > 0 { // the fault failed more than one sync
					lead(p, 1+<-resigned, x.replicas, pair[:1])
				}
				return begin(t, p, AcksLeader, 1).wait(t) == nil
			})
			if n := len(resigned); n != 0 && !x.resigns {
				t.Errorf("resigned %d times", n)
			}
		})
	}
}

// DeleteRecords is answered when every replica that may be elected has the new start: otherwise the
// records come back with the next leader (39).
func TestDeletedRecordsStayDeletedWithTheNextLeader(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 1, pair, pair)
	for range 4 {
		must(t, begin(t, p, AcksLeader, 1).wait(t))
	}
	s := progress.Subscription{Broker: 2, BrokerEpoch: 1, Dir: p.log.Dir().ID(), Written: 4, Durable: 4, Serial: serials.Add(1)}
	h, _, err := p.Subscribe(1, s)
	must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.DeleteRecords(ended, 3); !errors.Is(err, ErrTimedOut) || p.Ends().LogStart != 3 {
		t.Fatalf("the follower has not confirmed: %v, %+v", err, p.Ends())
	}
	type answer struct {
		low int64
		err error
	}
	answers := make(chan answer, 1)
	begun := func() {
		go func() { low, err := p.DeleteRecords(t.Context(), 3); answers <- answer{low, err} }()
		waitFor(t, "it waits for the follower", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.starts != nil })
	}
	begun()
	p.StartAcknowledged(h, 2)
	waitFor(t, "it waits again", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.starts != nil })
	p.StartAcknowledged(h, 3)
	if a := <-answers; a.low != 3 || a.err != nil {
		t.Errorf("%+v", a)
	}
	s.Serial = serials.Add(1)
	_, _, err = p.Subscribe(1, s) // with its old start
	must(t, err)
	begun()
	follow(p, 2, 2, pair, pair)
	if a := <-answers; !errors.Is(a.err, ErrNotLeader) {
		t.Errorf("after the leadership was lost: %+v", a)
	}
}

// A consumer reads from a follower that is behind the leader. The follower reports no offset as out
// of range unless its records are gone (46). Without a leader it refuses reads after a while (90).
func TestAFollowerServesWhatIsCommitted(t *testing.T) {
	p := lone(t, vfs.Memory())
	var now atomic.Int64
	p.env.now = func() time.Duration { return time.Duration(now.Load()) }
	read := func(offset int64, current, fetched int32, any bool) (int, error) {
		res, err := p.Read(ReadRequest{Offset: offset, MaxBytes: 1 << 20, CurrentEpoch: current, FetchedEpoch: fetched, AnyReplica: any})
		defer res.Release()
		return res.Size, err
	}
	if _, err := read(0, -1, -1, true); !errors.Is(err, ErrNotLeader) {
		t.Errorf("before the first role: %v", err)
	}
	now.Store(1)
	follow(p, 2, 5, pair, pair)
	must(t, p.Follow(5))
	for offset := range int64(4) {
		must(t, copied(t, p, 5, offset, 2))
	}
	waitFor(t, "the high watermark", func() bool { return p.Ends().HighWatermark == 2 && p.Ends().Ack == 4 })
	must(t, moveStart(p.log, 1))
	for _, x := range []struct {
		name             string
		offset           int64
		current, fetched int32
		any, some        bool
		err              error
	}{
		{"committed", 1, 5, 5, true, true, nil},
		{"at the high watermark", 2, 5, 5, true, false, nil},
		{"not known to be committed", 3, 5, 5, true, false, ErrOffsetNotAvailable},
		{"beyond the log", 9, 5, 5, true, false, ErrOffsetNotAvailable},
		{"after records of a later epoch", 2, 5, 6, true, false, ErrOffsetNotAvailable},
		{"below the log", 0, 5, -1, true, false, storage.ErrOffsetOutOfRange},
		{"in an older epoch", 1, 4, -1, true, false, ErrFencedEpoch},
		{"in a newer epoch", 1, 6, -1, true, false, ErrUnknownEpoch},
		{"from the leader only", 1, 5, -1, false, false, ErrNotLeader},
	} {
		n, err := read(x.offset, x.current, x.fetched, x.any)
		if (n > 0) != x.some || !errors.Is(err, x.err) || x.err == nil && err != nil {
			t.Errorf("%s: %d bytes, %v", x.name, n, err)
		}
	}
	if _, err := p.ListOffset(Latest, -1, false); !errors.Is(err, ErrNotLeader) {
		t.Errorf("the latest offset: %v", err)
	}
	// Out of sync it may begin later than the leader, which has the records then.
	follow(p, 2, 5, pair, pair[1:])
	if _, err := read(0, 5, -1, true); !errors.Is(err, ErrNotLeader) || errors.Is(err, storage.ErrOffsetOutOfRange) {
		t.Errorf("below the log, out of sync: %v", err)
	}
	follow(p, 2, 5, pair, pair)
	p.Unfollow()
	now.Add(int64(p.env.limits.Lag) - 1)
	if _, err := read(1, 5, 5, true); err != nil {
		t.Errorf("the stream has just ended: %v", err)
	}
	now.Add(2)
	if _, err := read(1, 5, 5, true); !errors.Is(err, ErrNotLeader) {
		t.Errorf("the stream ended long ago: %v", err)
	}
	must(t, p.Follow(5))
	if _, err := read(1, 5, 5, true); err != nil {
		t.Errorf("it follows again: %v", err)
	}
}

func TestALeaderNamesAReplicaInTheConsumersRack(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	tp := c.shared(idA, self, 1)
	for id, rack := range map[int32]string{1: "east", 2: "west", 3: "west", 4: "north"} {
		c.put(metadata.BrokerKey(id), metadata.Broker{Incarnation: joined, Rack: rack}.Encode())
		c.put(metadata.LivenessKey(id), metadata.BrokerState{Liveness: metadata.Active}.Encode())
	}
	must(t, c.change(tp, func(p *metadata.Partition) { p.Replicas, p.ISR = []int32{1, 2, 3, 4}, []int32{1, 3, 4} }))
	must(t, c.apply(t, l.Manager))
	p := l.partition(t, idA, 0)
	for rack, want := range map[string]int32{"west": 3, "north": 4, "east": -1, "south": -1, "": -1} {
		if got := p.PreferredReplica(c.image, rack); got != want {
			t.Errorf("%q: %d, want %d", rack, got, want)
		}
	}
	c.put(metadata.LivenessKey(3), metadata.BrokerState{Liveness: metadata.Fenced}.Encode())
	must(t, c.apply(t, l.Manager))
	if got := p.PreferredReplica(c.image, "west"); got != -1 {
		t.Errorf("a fenced broker: %d", got)
	}
}

// A high watermark is never paired with an older epoch. A checkpoint with such a pair would let an
// unclean election between the two epochs truncate below the high watermark.
func TestAHighWatermarkIsNeverPairedWithAnOlderEpoch(t *testing.T) {
	p := newPartition(lone(t, vfs.Memory()).log, &environment{self: self, park: purgatory.New()})
	p.setHigh(0, 0)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for i := range int64(100_000) {
			p.setHigh(10*i, int32(i))
		}
	}()
	for {
		if high, epoch := p.High(); int64(epoch) < high/10 {
			t.Fatalf("high watermark %d of epoch %d", high, epoch)
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}
