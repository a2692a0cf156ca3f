package replica

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// joined is the incarnation of the processes in these tests.
var joined = [16]byte{7}

// resigner counts what it is asked for.
type resigner struct {
	mu   sync.Mutex
	got  []map[metadata.TopicPartition]int32
	fail error
}

func (r *resigner) Resign(_ context.Context, _ int32, _ int64, list map[metadata.TopicPartition]int32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, list)
	return r.fail
}

func (r *resigner) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// pass lets time pass in a bubble, and waits until everything that it causes is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// led is a broker that leads a partition of brokers 1 and 2, in a bubble.
type led struct {
	c        *cluster
	l        life
	p        *Partition
	tp       metadata.TopicPartition
	resigner *resigner
	lease    atomic.Bool
	logs     *observer.ObservedLogs // warnings
}

func startLeader(t testing.TB, fs vfs.FS) *led {
	t.Helper()
	x := &led{c: newCluster(), resigner: &resigner{}}
	x.lease.Store(true)
	x.c.register(self, joined)
	x.c.register(2, [16]byte{2})
	x.tp = x.c.shared(idA, self, 1)
	x.c.record(2, x.tp, [16]byte{22})
	core, logs := observer.New(zap.WarnLevel)
	x.logs = logs
	x.l = startWith(t, fs, x.c, Options{Incarnation: joined, Resigner: x.resigner, Lease: x.lease.Load, Logger: zap.New(core)}, "/d")
	x.show(t)
	x.show(t) // with its own placement
	x.p = x.l.partition(t, idA, 0)
	return x
}

// show applies what was written. AlterISR locks the cluster.
func (x *led) show(t testing.TB) { t.Helper(); must(t, x.c.apply(t, x.l.Manager)) }

// fail has the metadata store answer with an error, nil for none.
func (x *led) fail(err error) {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	x.c.fail = err
}

func (x *led) altered() []metadata.ISRChange {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	return slices.Clone(x.c.altered)
}

// A follower that does not come leaves the ISR by a transaction, which is repeated until an image
// shows its outcome. When it is caught up, it joins at once.
func TestTheLeaderChangesItsISR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		x.fail(errors.New("no leader of the metadata")) // the outcome is unknown
		pass(4 * time.Second)
		if lags := x.l.Lags(); len(lags) != 1 || lags[2].Longest < 3*time.Second || lags[2].Records != 0 {
			t.Errorf("lags of followers: %+v, want broker 2, for more than 3s", lags)
		}
		sent := x.altered()
		if len(sent) < 3 || !slices.Equal(sent[0].ISR, []int32{1}) || len(sent[0].Members) != 1 || sent[0].Members[0].Broker != self {
			t.Fatalf("requested %+v", sent)
		}
		for _, c := range sent {
			if c.Revision != sent[0].Revision || !slices.Equal(c.ISR, sent[0].ISR) {
				t.Errorf("another change while the outcome is unknown: %+v", c)
			}
		}
		x.fail(nil)
		pass(time.Second)
		x.show(t)
		if isr := x.c.image.Partition(x.tp).ISR; !slices.Equal(isr, []int32{1}) {
			t.Fatalf("ISR %v", isr)
		}
		must(t, begin(t, x.p, AcksAll, 3).wait(t))
		n := len(x.altered())
		pass(time.Minute)
		if more := len(x.altered()) - n; more != 0 {
			t.Errorf("%d requests without a reason", more)
		}
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 3))
		synctest.Wait()
		x.show(t)
		if isr := x.c.image.Partition(x.tp).ISR; !slices.Equal(isr, []int32{1, 2}) {
			t.Errorf("the follower is caught up, the ISR is %v", isr)
		}
	})
}

// A refused change is final when an image shows the revision; then the leader decides again.
func TestARefusedChangeIsDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		// Another change of the record comes first, and the leader does not see it yet.
		must(t, x.c.change(x.tp, func(p *metadata.Partition) { p.PartitionEpoch++ }))
		pass(4 * time.Second)
		if isr := x.c.keys[metadata.PartitionKey(x.tp.Topic, 0)]; len(x.altered()) == 0 || isr.ModRevision == x.altered()[0].Revision {
			t.Fatalf("%d requests", len(x.altered()))
		}
		x.show(t)
		pass(time.Second)
		x.show(t)
		if isr := x.c.image.Partition(x.tp).ISR; !slices.Equal(isr, []int32{1}) {
			t.Errorf("ISR %v", isr)
		}
	})
}

// The change is refused because of the joining broker, so that the partition's record does not move
// (52).
func TestARefusedGrowthIsDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		pass(4 * time.Second)
		x.show(t)
		active := metadata.BrokerState{Liveness: metadata.Active}
		x.c.put(metadata.LivenessKey(2), active.Encode()) // the leader does not see it yet
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
		pass(time.Second)
		n := len(x.altered())
		if n < 2 {
			t.Fatal("nothing was requested")
		}
		x.show(t)
		pass(time.Second)
		x.show(t)
		if isr := x.c.image.Partition(x.tp).ISR; !slices.Equal(isr, []int32{1, 2}) {
			t.Errorf("ISR %v", isr)
		}
	})
}

// A change was refused at a later revision than that of the image which shows why, and the images
// in between change nothing of this partition. The leader decides again all the same.
func TestARefusalAtALaterRevisionIsDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		pass(4 * time.Second)
		x.show(t) // the ISR is {1}
		x.fail(errors.New("the answer is lost"))
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
		pass(time.Second)
		x.c.put(metadata.LivenessKey(2), metadata.BrokerState{Liveness: metadata.Active}.Encode())
		x.show(t) // the leader sees what its change does not name, but not that it is refused
		x.c.put(metadata.NameKey("other"), metadata.Name{Topic: "other", ID: idB}.Encode())
		n := len(x.altered())
		x.fail(nil) // it is refused, at the revision of the other topic
		pass(time.Second)
		if len(x.altered()) == n {
			t.Fatal("the change was not repeated")
		}
		x.show(t)
		pass(time.Second)
		x.show(t)
		if isr := x.c.image.Partition(x.tp).ISR; !slices.Equal(isr, []int32{1, 2}) {
			t.Errorf("ISR %v", isr)
		}
	})
}

// A store that refuses what the leader sees as current is not asked without a pause.
func TestRefusalsAreNotAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		x.fail(&metadata.ConflictError{Revision: 1})
		pass(14 * time.Second)
		if n := len(x.altered()); n < 10 || n > 60 {
			t.Errorf("%d requests in about 10 s", n)
		}
	})
}

// Without a lease nothing is requested; when it is back, the leader continues.
func TestChangesOfTheISRWaitForALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		pass(4 * time.Second)
		x.show(t) // the ISR is {1}
		x.lease.Store(false)
		n := len(x.altered())
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
		pass(10 * time.Second)
		if len(x.altered()) != n {
			t.Errorf("requested %+v", x.altered()[n:])
		}
		x.lease.Store(true)
		pass(time.Second)
		if len(x.altered()) == n {
			t.Error("nothing was requested with the lease")
		}
	})
}

// A replica whose broker has reported its directory as failed, or its log as damaged, does not join
// (71).
func TestAFailedReplicaDoesNotJoin(t *testing.T) {
	for name, state := range map[string]metadata.BrokerState{
		"directory": {Liveness: metadata.Active, Unable: []metadata.UnableDir{{ID: [16]byte{22}, Why: metadata.DirFailed}}},
		"log":       {Liveness: metadata.Active, Damaged: []metadata.TopicPartition{{Topic: idA}}},
		"draining":  {Liveness: metadata.Draining},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := startLeader(t, vfs.Memory())
				pass(4 * time.Second)
				x.c.put(metadata.LivenessKey(2), state.Encode())
				x.show(t)
				n := len(x.altered())
				must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
				pass(time.Second)
				if len(x.altered()) != n {
					t.Errorf("requested %+v", x.altered()[n:])
				}
			})
		})
	}
}

// The leader of a log that took records back asks for another leader until the metadata shows a
// higher epoch.
func TestALeaderResignsUntilTheEpochMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		x.resigner.fail = errors.New("no controller")
		x.p.Reverted(0, storage.ErrFailed)
		pass(3 * time.Second)
		n := x.resigner.count()
		if n < 3 || n > 20 || x.resigner.got[0][x.tp] != 1 {
			t.Fatalf("%d requests", n)
		}
		if w := x.logs.FilterMessageSnippet("did not accept that this broker resigns").Len(); w != 1 {
			t.Errorf("%d warnings of %d requests that failed for the same reason", w, n)
		}
		must(t, x.c.change(x.tp, func(p *metadata.Partition) { p.LeaderEpoch++ }))
		x.show(t)
		n = x.resigner.count()
		pass(time.Minute)
		if more := x.resigner.count() - n; more > 1 {
			t.Errorf("%d requests in the next epoch", more)
		}
	})
}

// Only a leader that another in-sync replica can replace resigns because of damage, and not at each
// read.
func TestALeaderWithADamagedLogResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := startLeader(t, vfs.Memory())
		for range 100 {
			x.p.ReadFailed(storage.ErrOffsetOutOfRange)
			x.p.ReadFailed(&storage.Damage{})
		}
		x.l.env.upkeep.mu.Lock()
		asked := len(x.l.env.upkeep.resign.todo)
		x.l.env.upkeep.mu.Unlock()
		if asked > 1 {
			t.Errorf("%d partitions resign", asked)
		}
		pass(100 * time.Millisecond)
		if n := x.resigner.count(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// A directory with a fault counts as unable at once. It counts as able again after three seconds
// without a fault.
func TestADirectoryIsUnableUntilItWasSteady(t *testing.T) {
	a, at := &ability{}, map[time.Duration]metadata.DirFault{}
	for now := time.Duration(0); now < 40*time.Second; now += sweepInterval {
		why, before := metadata.DirFault(0), a.why
		switch {
		case now >= 10*time.Second && now < 20*time.Second:
			why = metadata.DirHung
		case now >= 30*time.Second && now < 31*time.Second, now == 33*time.Second: // now and then
			why = metadata.DirFailed
		}
		if a.note(why, now); a.why != before {
			at[now] = a.why
		}
	}
	want := map[time.Duration]metadata.DirFault{
		10 * time.Second: metadata.DirHung, 22500 * time.Millisecond: 0, 30 * time.Second: metadata.DirFailed, 36 * time.Second: 0,
	}
	if !maps.Equal(at, want) {
		t.Errorf("it changed at %v, want %v", at, want)
	}
}

// A high watermark that the checkpoint lacks is known after a crash.
func TestHighWatermarksAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.Memory()
		x := startLeader(t, fs)
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
		must(t, begin(t, x.p, AcksLeader, 3).wait(t))
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 3))
		if high := x.p.Ends().HighWatermark; high != 3 {
			t.Fatalf("high watermark %d", high)
		}
		pass(saveInterval + time.Second)
		if in, err := fs.Stat("/d/" + storage.HighFile); err != nil || in.Size < 36 {
			t.Errorf("%d bytes, %v", in.Size, err)
		}
	})
}

// High watermarks that do not change cost nothing. Those that could not be saved are saved later.
func TestUnchangedHighWatermarksAreNotExamined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := errfs.New(vfs.Memory())
		x := startLeader(t, fs)
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
		must(t, begin(t, x.p, AcksLeader, 3).wait(t))
		fail := fs.Add(errfs.Rule{Ops: errfs.Write, Path: storage.HighFile + "*", Err: errors.New("no space")})
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 3))
		pass(2*saveInterval + time.Second)
		if _, err := fs.Stat("/d/" + storage.HighFile); err == nil || fail.Hits() < 2 {
			t.Errorf("a disk that fails was tried %d times (%v)", fail.Hits(), err)
		}
		fail.Off()
		pass(saveInterval)
		if in, err := fs.Stat("/d/" + storage.HighFile); err != nil || in.Size < 36 {
			t.Errorf("%d bytes, %v", in.Size, err)
		}
		pass(saveInterval)
		if n := testing.AllocsPerRun(10, x.p.env.upkeep.saveHigh); n > 0 {
			t.Errorf("%v allocations while nothing changes", n)
		}
	})
}

// A directory that hangs while its high watermarks are saved delays nothing else.
func TestAHangingDirectoryDelaysNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := errfs.New(vfs.Memory())
		x := startLeader(t, fs)
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
		must(t, begin(t, x.p, AcksLeader, 3).wait(t))
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 3))
		gate := make(chan struct{})
		held := fs.Add(errfs.Rule{Path: storage.HighFile + "*", Before: func(errfs.Call) { <-gate }})
		time.Sleep(2 * saveInterval)
		must(t, begin(t, x.p, AcksLeader, 1).wait(t)) // the follower falls behind
		pass(4 * time.Second)
		if len(x.altered()) == 0 {
			t.Error("no change was requested")
		}
		held.Off()
		close(gate)
		synctest.Wait()
	})
}

// A turn of the upkeep costs what is due, not what waits for an outcome: while thousands of changes
// are on their way, each outcome causes a turn.
func TestPendingChangesCostNothingBetweenRepetitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, turns = 50, 100
		c := newCluster()
		c.register(self, joined)
		c.register(2, [16]byte{2})
		c.shared(idA, self, 1)
		c.put(metadata.TopicKey(idA), metadata.TopicRecord{Name: "a", Partitions: n}.Encode())
		for i := range int32(n) {
			c.partition(idA, i, metadata.Partition{Leader: self, LeaderEpoch: 1, Replicas: []int32{1, 2}, ISR: []int32{1, 2}})
			c.record(2, metadata.TopicPartition{Topic: idA, Partition: i}, [16]byte{22})
		}
		var asked atomic.Int64 // Propose asks once
		m := startWith(t, vfs.Memory(), c, Options{Incarnation: joined, Lease: func() bool { asked.Add(1); return true }}, "/d")
		must(t, c.apply(t, m.Manager))
		must(t, c.apply(t, m.Manager))
		x := led{c: c}
		x.fail(errors.New("no leader of the metadata"))
		pass(4 * time.Second) // the follower never came
		if sent := len(x.altered()); sent < n {
			t.Fatalf("%d changes were requested, want %d at least", sent, n)
		}
		p := m.partition(t, idA, 0)
		asked.Store(0)
		for range turns {
			p.env.upkeep.proposalDue(p)
			synctest.Wait()
		}
		if got := asked.Load(); got > turns+2*n {
			t.Errorf("%d turns with %d changes pending decided %d times", turns, n, got)
		}
	})
}

// replica.lag.time.max.ms and replica.stall.time.max.ms are limits of each partition.
func TestLimitsOfTheISR(t *testing.T) {
	for _, c := range []struct{ opt, want Options }{
		{Options{}, Options{LagTime: 3 * time.Second, StallTime: 1500 * time.Millisecond}},
		{Options{LagTime: time.Minute, StallTime: time.Second}, Options{LagTime: time.Minute, StallTime: time.Second}},
	} {
		m := NewManager(c.opt)
		if l := m.env.limits; l.Lag != c.want.LagTime || l.Stall != c.want.StallTime {
			t.Errorf("limits %v and %v, want %v and %v", l.Lag, l.Stall, c.want.LagTime, c.want.StallTime)
		}
		must(t, m.Close(t.Context()))
	}
}

// A directory that cannot save is named in few lines, and when it saves again.
func TestHighWatermarksThatAreNotSavedAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := errfs.New(vfs.Memory())
		x := startLeader(t, fs)
		core, said := observer.New(zap.InfoLevel)
		x.p.env.upkeep.m.opt.Logger = zap.New(core)
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 0))
		must(t, begin(t, x.p, AcksLeader, 3).wait(t))
		fail := fs.Add(errfs.Rule{Ops: errfs.Write, Path: storage.HighFile + "*", Err: errors.New("no space")})
		must(t, x.c.acknowledge(x.p, 2, 1, [16]byte{22}, 3))
		pass(20*saveInterval + time.Second)
		dir := said.FilterField(zap.String("dir", "/d"))
		if n := dir.FilterMessageSnippet("high watermarks were not saved").Len(); fail.Hits() < 17 || n != 6 {
			t.Errorf("%d lines of %d failures", n, fail.Hits())
		}
		fail.Off()
		pass(2 * saveInterval)
		if n := said.FilterMessage("high watermarks are saved again").Len(); n != 1 {
			t.Errorf("%d lines of a success", n)
		}
	})
}
