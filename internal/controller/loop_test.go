package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// A broker whose session ends leaves the ISR; the others lead. When the ISR becomes too small, the
// members that leave it remain eligible.
func TestABrokerThatIsSilentIsFenced(t *testing.T) {
	w := three(t)
	w.procs[1].up = false
	w.pass(4 * time.Second)
	w.want("the leader is silent", "2@1 isr [2 3] elr []")
	if w.state(1) != metadata.Fenced || w.state(2) != metadata.Active {
		t.Errorf("1 is %v, 2 is %v", w.state(1), w.state(2))
	}
	w.procs[2].up = false
	w.pass(4 * time.Second)
	w.want("the next one is silent", "3@2 isr [3] elr [2]")
	w.procs[3].up = false
	w.pass(4 * time.Second)
	w.want("all are silent", "-1@3 isr [] elr [2 3]")
	w.start(1)
	w.pass(time.Second)
	w.want("one that is not eligible is back", "-1@3 isr [] elr [2 3]")
	w.start(3)
	w.pass(time.Second)
	w.want("an eligible one is back", "3@4 isr [3] elr [2]")
}

// History 10 in the whole controller: a leader that hears nothing is fenced within a timeout.
func TestALeaderThatHearsNothingIsFenced(t *testing.T) {
	w := three(t)
	w.pass(2 * time.Second)
	w.procs[1].deaf = true
	w.pass(DefaultSessionTimeout)
	w.want("the leader is deaf", "2@1 isr [2 3] elr []")
}

// History 1: a process whose directory was replaced leaves the ISR before it counts again.
// History 51: one that has all that it had stays.
func TestReturningReplicas(t *testing.T) {
	other := func(q *RegisterRequest) { q.Dirs[0].ID = [16]byte{99} }
	older := func(q *RegisterRequest) { q.Dirs[0].Found = 4 }
	for name, c := range map[string]struct {
		edit func(*RegisterRequest)
		want string
	}{
		"whole":      {func(*RegisterRequest) {}, "1@0 isr [1 2 3] elr []"},
		"wiped":      {other, "1@0 isr [1 2] elr []"},
		"older copy": {older, "1@0 isr [1 2] elr []"},
		"lossy":      {func(q *RegisterRequest) { q.Lossy = []metadata.TopicPartition{tpA} }, "1@0 isr [1 2] elr []"},
		"damaged":    {func(q *RegisterRequest) { q.Damaged = []metadata.TopicPartition{tpA} }, "1@0 isr [1 2] elr []"},
	} {
		w := three(t)
		w.start(3, c.edit)
		w.want(name, c.want)
		if w.state(3) != metadata.Starting {
			t.Errorf("%s: broker 3 is %v", name, w.state(3))
		}
		w.pass(time.Second)
		w.want(name+", active", c.want)
		w.start(1)
		w.must(w.loop.step(context.Background(), w.now)) // it does not lead at this moment
		w.pass(time.Second)
		if p := w.applier.Image().Partition(tpA); p.LeaderEpoch == 0 || p.Leader < 0 {
			t.Errorf("%s: the leader's process changed: %s", name, w.record())
		}
	}
}

// The last member is remembered, and leads again with everything it had, unless it may lack some.
func TestTheLastMemberReturns(t *testing.T) {
	w := three(t)
	w.minISR = 1
	for id := int32(2); id <= 3; id++ {
		w.procs[id].up = false
	}
	w.pass(4 * time.Second)
	w.want("alone", "1@0 isr [1] elr [2 3]")
	w.must(w.alter(w.isrChange([]int32{1}, nil)))
	w.start(1, func(q *RegisterRequest) { q.Dirs = []RegisterDir{{ID: [16]byte{98}}} })
	w.pass(time.Second)
	w.want("its disk is away", "-1@1 isr [] elr [] last 1 lossy false")
	if b, _ := w.applier.Image().Broker(1); len(b.Dirs) != 2 || !b.Dirs[1].Offline || b.Dirs[1].CheckpointSequence != 5 {
		t.Errorf("the absent directory is forgotten: %+v", b.Dirs)
	}
	older := w.start(1, func(q *RegisterRequest) { q.Dirs[0].Found = 4 })
	w.pass(time.Second)
	w.want("an older copy of it came back", "-1@1 isr [] elr [] last 1 lossy true")
	_ = older
}

// A directory that could not note its registration reports again what it reported then. That says
// nothing about an older copy of it.
func TestADirectoryThatDidNotNoteItsRegistrationIsWhole(t *testing.T) {
	w := three(t)
	w.minISR = 1
	for id := int32(2); id <= 3; id++ {
		w.procs[id].up = false
	}
	w.pass(4 * time.Second)
	w.must(w.alter(w.isrChange([]int32{1}, nil)))
	found := [16]byte{7}
	w.start(1, func(q *RegisterRequest) { q.Dirs[0].Finding, q.Dirs[0].Sequence = found, 9 })
	w.pass(time.Second)
	w.want("it did not note that", "1@2 isr [1] elr []")
	w.start(1, func(q *RegisterRequest) { q.Dirs[0].Finding, q.Dirs[0].Sequence = found, 12 })
	w.pass(time.Second)
	w.want("it reports the same again", "1@4 isr [1] elr []")
	w.start(1)
	w.pass(time.Second)
	w.want("a copy from before those starts: it found the same checkpoint, in a start of its own", "-1@5 isr [] elr [] last 1 lossy true")
}

// A running leader whose log is damaged gives way to a member that can lead, and not to one whose
// directory fails at the same time.
func TestADamagedLeaderGivesWayToAMemberThatCanLead(t *testing.T) {
	w := three(t)
	w.minISR = 1
	w.procs[3].up = false
	w.pass(4 * time.Second)
	w.want("two are in sync", "1@0 isr [1 2] elr []")
	w.procs[1].damaged, w.procs[2].failed = []metadata.TopicPartition{tpA}, [][16]byte{{2}}
	w.step()
	w.pass(time.Second)
	w.want("it leads on", "1@0 isr [1] elr [2]")
}

// A failed directory moves leaderships away; a damaged log is not even eligible. The next
// controller knows both, and each ends with the first heartbeat that does not report it.
func TestFailedDirectoriesAndDamagedLogs(t *testing.T) {
	w := three(t)
	w.procs[1].failed = [][16]byte{{1}}
	w.pass(time.Second)
	w.want("the leader's directory failed", "2@1 isr [2 3] elr []")
	w.procs[2].damaged = []metadata.TopicPartition{tpA}
	w.pass(time.Second)
	w.want("the next leader's log is damaged", "3@2 isr [3] elr []")
	w.newLoop()
	w.lead()
	able := func(id int32) bool { return knowledge{img: w.applier.Image()}.of(tpA).Online(id) }
	if able(1) || able(2) {
		t.Error("the next controller forgot")
	}
	w.procs[1].failed, w.procs[2].damaged = nil, nil
	w.pass(time.Second)
	if !able(1) || !able(2) {
		t.Error("what no heartbeat reports any longer did not end")
	}
	w.want("no record changes for that", "3@2 isr [3] elr []")
}

// A leader whose directory hangs or is low on space gives the leadership to a member of the ISR
// that can write, and gets it back at a balance when it can. It stays in sync, and leads on if no
// other one can write.
func TestWhoCanWriteLeads(t *testing.T) {
	for _, why := range []metadata.DirFault{metadata.DirHung, metadata.DirLow} {
		w := three(t)
		w.loop.opt.Balance = true
		w.procs[1].unable = why
		w.pass(time.Second)
		w.want(why.String(), "2@1 isr [1 2 3] elr []")
		w.pass(2 * balanceInterval)
		w.want("it is not preferred", "2@1 isr [1 2 3] elr []")
		w.procs[2].unable = metadata.DirLow
		w.pass(time.Second)
		w.want("the next one", "3@2 isr [1 2 3] elr []")
		w.procs[3].unable = metadata.DirLow
		w.pass(2 * balanceInterval)
		w.want("no broker can write", "3@2 isr [1 2 3] elr []")
		w.procs[3].up = false
		w.pass(4 * time.Second)
		w.want("one of those that cannot write leads", "1@3 isr [1 2] elr []")
		w.procs[2].unable = 0
		w.pass(time.Second)
		w.want("one can write again", "2@4 isr [1 2] elr []")
		w.procs[1].unable = 0
		w.pass(2 * balanceInterval)
		w.want("the preferred one can", "1@5 isr [1 2] elr []")
	}
}

// A replica without a log leads only if its broker has a directory that works.
func TestAReplicaWithoutALogNeedsADirectoryThatWorks(t *testing.T) {
	w := three(t)
	made, err := w.controller().CreateTopic(context.Background(), manual(Assignment{0, []int32{1, 2, 3}}))
	w.must(err)
	tp := metadata.TopicPartition{Topic: made.ID}
	w.must(w.applier.WaitShown(context.Background(), made.Revision))
	w.procs[1].failed = [][16]byte{{1}}
	w.pass(time.Second)
	if p := w.applier.Image().Partition(tp); p.Leader != 2 || !slices.Equal(p.ISR, []int32{2, 3}) {
		t.Errorf("its directory failed: %+v", p)
	}
}

// A broker that drains gives its leaderships away, then leaves the ISR, and may stop.
func TestDraining(t *testing.T) {
	w := three(t)
	w.procs[1].drain = true
	w.pass(2 * time.Second)
	w.want("drained", "2@1 isr [2 3] elr []")
	if w.state(1) != metadata.Drained {
		t.Errorf("broker 1 is %v", w.state(1))
	}
	w.procs[3].up, w.procs[1].up = false, false
	w.pass(4 * time.Second)
	w.want("alone", "2@1 isr [2] elr [3]")
	w.procs[2].drain = true
	w.pass(5 * time.Second)
	w.want("the last one drains", "2@1 isr [2] elr [3]")
	if w.state(2) != metadata.Drained {
		t.Errorf("broker 2 is %v", w.state(2))
	}
}

// A broker that has not applied the elections of its successors is not drained: it would stop, and
// stay in the ISR as long as its session.
func TestADrainedBrokerKnowsItsSuccessors(t *testing.T) {
	w := three(t)
	w.procs[1].drain, w.procs[1].stuck = true, true
	w.pass(2 * DefaultHeartbeatInterval)
	w.want("another one leads", "2@1 isr [1 2 3] elr []")
	if w.state(1) != metadata.Draining {
		t.Errorf("broker 1 is %v", w.state(1))
	}
	w.procs[1].stuck = false
	w.step()
	w.want("it knows", "2@1 isr [2 3] elr []")
	if w.state(1) != metadata.Drained {
		t.Errorf("broker 1 is %v", w.state(1))
	}
}

// A member of the ISR that restarts is waited for; after a session timeout the ELR leads.
func TestTheELRWaitsForTheISR(t *testing.T) {
	w := three(t)
	for _, id := range []int32{3, 2} {
		w.procs[id].up = false
		w.pass(4 * time.Second)
	}
	w.want("one left", "1@0 isr [1] elr [2]")
	w.start(2)
	w.pass(time.Second)
	w.start(1).silent = true
	w.pass(DefaultSessionTimeout - 2*DefaultHeartbeatInterval)
	w.want("it restarts", "-1@1 isr [1] elr [2]")
	w.pass(2 * time.Second)
	w.want("it does not come", "2@2 isr [2] elr [1]")
}

// Resign moves leaderships in the named epoch only.
func TestResigning(t *testing.T) {
	w := three(t)
	resign := func(epoch int32) {
		_, err := w.loop.Resign(context.Background(), 1, w.procs[1].epoch, []Resigned{{tpA, epoch}, {metadata.TopicPartition{}, 0}})
		w.must(err)
	}
	resign(7)
	w.want("another epoch", "1@0 isr [1 2 3] elr []")
	resign(0)
	w.want("resigned", "2@1 isr [1 2 3] elr []")
	if _, err := w.loop.Resign(context.Background(), 1, 1, nil); !isRefusal(err, StaleBrokerEpoch) {
		t.Errorf("of a former process: %v", err)
	}
	w.loop.end()
	if _, err := w.loop.Resign(context.Background(), 1, w.procs[1].epoch, nil); !errors.Is(err, ErrNotController) {
		t.Errorf("without the quorum: %v", err)
	}
}

// A decision about a partition is refused if the state of one of its brokers has changed since.
func TestADecisionOnAnOldStateIsRefused(t *testing.T) {
	w := three(t)
	w.procs[1].up = false
	w.procs[2].silent = true
	w.loop.sessions.begin(2, w.procs[2].Incarnation, true, w.now+time.Hour)
	w.use(&on{w.store, func(txn metadata.Txn) {
		if txn.Put[0].Key == metadata.PartitionKey(topicA, 0) && w.state(2) == metadata.Active {
			w.put(metadata.LivenessKey(2), metadata.BrokerState{Liveness: metadata.Starting, Incarnation: metadata.NewID()}.Encode())
		}
	}})
	w.pass(4 * time.Second)
	w.want("2 has begun to register", "3@1 isr [2 3] elr []")
}

// A controller that no quorum has confirmed yet, or that is not confirmed any longer, grants no
// lease, however old its process is: another one may decide, which knows nothing of the lease.
func TestAnUnconfirmedControllerGrantsNoLease(t *testing.T) {
	w := three(t)
	w.newLoop()
	w.confirms = false
	w.lead()
	p := w.procs[1]
	for range 3 {
		w.now += DefaultHeartbeatInterval
		a, err := w.beat(p)
		if w.must(err); a.Lease > 0 {
			t.Fatalf("before the first confirmation: %+v", a)
		}
	}
	w.confirms = true
	if a, err := w.beat(p); err != nil || a.Lease <= 0 || a.Lease > DefaultSessionTimeout {
		t.Fatalf("after it: %+v, %v", a, err)
	}
}

// quorum is the leadership of a test. It and the time are real, in a bubble.
type quorum struct {
	mu    sync.Mutex
	term  Term
	moved chan struct{}
	begin time.Time
}

func (q *quorum) Leads() (Term, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.term, q.moved
}

func (q *quorum) Confirmed() (time.Duration, bool) { return q.now(), true }

func (q *quorum) Sole() bool { return false }

func (q *quorum) now() time.Duration { return time.Since(q.begin) }

func (q *quorum) set(term Term) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.term = term
	close(q.moved)
	q.moved = make(chan struct{})
}

// elected gives the world a loop whose node leads when the quorum says so.
func (w *world) elected() *quorum {
	q := &quorum{moved: make(chan struct{}), begin: time.Now()}
	w.loop = NewLoop(LoopOptions{Store: w.leading(w.store), Images: w.applier, Leadership: q, Log: zap.NewNop(), Now: q.now,
		MinISR: func(*metadata.Image, *metadata.Topic, *metadata.Partition) int { return 1 }})
	return q
}

// Run decides while its node leads and has the revision that the term names. The session of the
// former controller's broker ends when no lease of it is left.
func TestRunDecidesWhileItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := three(t)
		q := w.elected()
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { w.loop.Run(ctx) })
		time.Sleep(time.Minute)
		if _, err := w.loop.Heartbeat(ctx, Heartbeat{}); !errors.Is(err, ErrNotController) {
			t.Errorf("a heartbeat to a node that does not lead: %v", err)
		}
		w.want("no node leads the quorum", "1@0 isr [1 2 3] elr []")
		version := w.applier.Image().Version()
		q.set(Term{Number: 2, Revision: version + 1, Former: 1, FormerUntil: q.now()})
		time.Sleep(time.Minute)
		w.want("the node lacks a revision", "1@0 isr [1 2 3] elr []")
		w.term = 3
		q.set(Term{Number: 3, Revision: version, Former: 1, FormerUntil: q.now() - time.Second})
		time.Sleep(1200 * time.Millisecond)
		w.want("the former controller may have granted a lease that is not over", "1@0 isr [1 2 3] elr []")
		time.Sleep(300 * time.Millisecond)
		w.want("the former controller's broker is fenced first", "2@1 isr [2 3] elr []")
		time.Sleep(2 * time.Second)
		w.want("no broker beats", "-1@2 isr [] elr [2 3]")
		q.set(Term{})
		synctest.Wait()
		if _, err := w.loop.Register(ctx, &RegisterRequest{}); !errors.Is(err, ErrNotController) {
			t.Errorf("a registration at a node that does not lead any longer: %v", err)
		}
		stop()
		run.Wait()
	})
}

// A registration that arrives before Run has begun the term waits for it, unless the term ends.
func TestARegistrationWaitsForTheBeginOfTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := three(t)
		q := w.elected()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var epoch int64
		var err error
		register := func() {
			all.Go(func() { epoch, err = w.loop.Register(ctx, &w.process(4).RegisterRequest) })
			synctest.Wait()
		}
		q.set(Term{Number: w.term, Revision: w.applier.Image().Version()})
		register()
		q.set(Term{})
		if all.Wait(); !errors.Is(err, ErrNotController) {
			t.Errorf("the term has ended: %d, %v", epoch, err)
		}
		q.set(Term{Number: w.term, Revision: w.applier.Image().Version()})
		register()
		if epoch != 0 {
			t.Errorf("registered with epoch %d before the term has begun", epoch)
		}
		var run sync.WaitGroup
		run.Go(func() { w.loop.Run(ctx) })
		if all.Wait(); err != nil || epoch == 0 {
			t.Errorf("the term has begun: %d, %v", epoch, err)
		}
		stop()
		run.Wait()
	})
}

// A member of the ISR that crashes again and again does not keep the ELR from leading.
func TestACrashingMemberOfTheISRIsGivenUp(t *testing.T) {
	w := three(t)
	for _, id := range []int32{3, 2} {
		w.procs[id].up = false
		w.pass(4 * time.Second)
	}
	w.start(2)
	w.pass(time.Second)
	for range 6 {
		w.start(1)
		w.must(w.loop.step(context.Background(), w.now)) // it does not lead at this moment
		w.pass(time.Second)
		if p := w.applier.Image().Partition(tpA); p.Leader == 2 {
			return
		}
	}
	t.Errorf("the ELR does not lead: %s", w.record())
}

// History 43: when all may lack records, the longest log of all replicas leads, and the epoch is
// marked. The controller waits for the others, for a bounded time.
func TestTheLongestOfLossyLogsLeads(t *testing.T) {
	lossy := func(q *RegisterRequest) { q.Lossy = []metadata.TopicPartition{tpA} }
	for name, c := range map[string]struct {
		back []int32
		want string
	}{"all": {[]int32{3}, "3@2 isr [3] elr []"}, "one is away": {nil, "2@2 isr [2] elr []"}} {
		w := three(t)
		w.minISR = 1
		w.reports = map[int32]election.LogState{1: {LastEpoch: 0, End: 90}, 2: {LastEpoch: 0, End: 95}, 3: {LastEpoch: 0, End: 97}}
		for id := range w.procs {
			w.procs[id].up = false
		}
		for _, id := range []int32{2, 3, 1} {
			p := w.start(id, lossy)
			p.up = id != 3
		}
		w.pass(5 * time.Second)
		w.want(name+": not all are back", "-1@1 isr [] elr [] last 1 lossy true")
		for _, id := range c.back {
			w.start(id)
		}
		w.pass(time.Second)
		if len(c.back) == 0 {
			w.want(name+": not all are back", "-1@1 isr [] elr [] last 1 lossy true")
			w.pass(lossyPatience)
		}
		w.want(name, c.want)
		if p := w.applier.Image().Partition(tpA); p.Unclean != 2 {
			t.Errorf("%s: the epoch is not marked: %+v", name, p)
		}
	}
}

// The log of an active replica that has not reported may be the longest: the election waits for it,
// for a bounded time. An operator's is refused.
func TestAnUncleanElectionWaitsForReports(t *testing.T) {
	w := three(t)
	w.unclean = true
	for _, id := range []int32{1, 2, 3} {
		w.procs[id].up = false
		w.pass(4 * time.Second)
	}
	w.want("all are away", "-1@3 isr [] elr [2 3]")
	w.pass(lossyPatience)
	var asked []string
	w.loop.opt.LogStates = func(_ context.Context, of *metadata.Broker, logs []metadata.TopicPartition) (
		map[metadata.TopicPartition]election.LogState, error) {
		asked = append(asked, fmt.Sprint(of.ID))
		if b, _ := w.applier.Image().Broker(of.ID); of.Incarnation != b.Incarnation {
			t.Errorf("broker %d: another process is asked", of.ID)
		}
		return nil, errCut
	}
	w.start(1)
	w.pass(4 * time.Second)
	if _, errs := w.loop.ElectUnclean(t.Context(), []metadata.TopicPartition{tpA}); kinds(t, errs)[0] != EligibleLeadersNotAvailable ||
		!strings.Contains(errs[0].Error(), "Broker 1 has not reported") {
		t.Error(errs)
	}
	if len(asked) < 2 {
		t.Errorf("asked %q", asked)
	}
	w.want("it does not report", "-1@3 isr [] elr [2 3]")
	w.loop.opt.LogStates = w.report
	w.reports = map[int32]election.LogState{1: {End: 5}}
	w.pass(time.Second * 2)
	w.want("it reports", "1@4 isr [1] elr []")
}

// One active replica does not report: the others lead only when the patience has ended.
func TestAShorterLogWaitsForASilentOne(t *testing.T) {
	lossy := func(q *RegisterRequest) { q.Lossy = []metadata.TopicPartition{tpA} }
	w := three(t)
	w.minISR = 1
	w.reports = map[int32]election.LogState{1: {End: 90}, 2: {End: 95}} // 3 is silent
	for id := range w.procs {
		w.procs[id].up = false
	}
	for _, id := range []int32{2, 3, 1} {
		w.start(id, lossy)
	}
	w.pass(5 * time.Second)
	w.want("one is silent", "-1@1 isr [] elr [] last 1 lossy true")
	w.pass(lossyPatience)
	w.want("the patience has ended", "2@2 isr [2] elr []")
}

// An active replica cannot use its log, because a repair is under way or its disk cannot be read
// for a moment: the others lead only when the patience has ended, and at once if the log is
// damaged.
func TestAShorterLogWaitsForOneThatIsOffline(t *testing.T) {
	for _, c := range []struct {
		name               string
		comes, damaged     bool
		early, later, last string
	}{
		{"it reports", true, false, "-1@1 isr [] elr [] last 1 lossy true", "3@2 isr [3] elr []", ""},
		{"it never reports", false, false, "-1@1 isr [] elr [] last 1 lossy true", "-1@1 isr [] elr [] last 1 lossy true",
			"2@2 isr [2] elr []"},
		{"it is damaged", false, true, "2@2 isr [2] elr []", "", ""},
	} {
		w := three(t)
		w.minISR = 1
		w.reports = map[int32]election.LogState{1: {End: 90}, 2: {End: 95}, 3: {End: 97}}
		w.offline = map[int32]bool{3: true}
		for id := range w.procs {
			w.procs[id].up = false
		}
		for _, id := range []int32{2, 3, 1} {
			p := w.start(id, func(q *RegisterRequest) { q.Lossy = []metadata.TopicPartition{tpA} })
			if c.damaged && id == 3 {
				p.damaged = []metadata.TopicPartition{tpA}
			}
		}
		w.pass(5 * time.Second)
		w.want(c.name, c.early)
		if c.comes {
			w.offline = nil
		}
		w.pass(2 * time.Second)
		w.want(c.name, cmp.Or(c.later, c.early))
		w.pass(lossyPatience)
		w.want(c.name, cmp.Or(c.last, c.later, c.early))
	}
}

// An unclean election is void if the process that reported its log is not registered any more.
func TestAnUncleanElectionComparesTheRegistration(t *testing.T) {
	w := three(t)
	img := w.applier.Image()
	from := img.Partition(tpA)
	next := *from
	next.Leader, next.LeaderEpoch, next.ISR, next.ELR = 2, from.LeaderEpoch+1, []int32{2}, nil
	clean := newChange(img, tpA, from, next)
	next.Unclean = next.LeaderEpoch
	unclean := newChange(img, tpA, from, next)
	b, _ := img.Broker(2)
	want := metadata.Compare{Key: metadata.BrokerKey(2), ModRevision: b.Epoch}
	if slices.Contains(clean.txn.If, want) || !slices.Contains(unclean.txn.If, want) {
		t.Errorf("%+v, %+v", clean.txn.If, unclean.txn.If)
	}
}

// Without lossy logs, only the topic's config permits a loss.
func TestUncleanElectionsNeedPermission(t *testing.T) {
	w := three(t)
	w.reports = map[int32]election.LogState{1: {End: 5}}
	for _, id := range []int32{1, 2, 3} {
		w.procs[id].up = false
		w.pass(4 * time.Second)
	}
	w.want("all are away", "-1@3 isr [] elr [2 3]")
	w.start(1)
	w.pass(time.Minute)
	w.want("not permitted", "-1@3 isr [] elr [2 3]")
	w.unclean = true
	w.pass(2 * time.Second)
	w.want("permitted", "1@4 isr [1] elr []")
}

// A broker that does not apply the metadata any longer is fenced, and stays fenced without a
// registration until it does. A member that starts becomes active with the same proof.
func TestABrokerWhoseMetadataStandStillIsFenced(t *testing.T) {
	w := three(t)
	p := w.procs[1]
	p.stuck = true
	w.put(metadata.ClusterKey, metadata.Cluster{ID: clusterID, Generation: [16]byte{1}, FeatureLevel: 1}.Encode())
	w.pass(DefaultSessionTimeout + DefaultHeartbeatInterval)
	w.want("the leader's metadata stand still", "2@1 isr [2 3] elr []")
	version := w.applier.Image().Version()
	w.pass(time.Minute)
	if got := w.applier.Image().Version(); w.state(1) != metadata.Fenced || got != version {
		t.Errorf("broker 1 is %v, %d revisions later", w.state(1), got-version)
	}
	if a, err := w.beat(p); err != nil || a.Lease > 0 || a.Revision != version {
		t.Errorf("%+v, %v", a, err)
	}
	p.stuck = false
	w.pass(time.Second)
	if w.state(1) != metadata.Active {
		t.Errorf("broker 1 is %v, and has applied everything", w.state(1))
	}
	if a, err := w.beat(p); err != nil || a.Lease <= 0 {
		t.Errorf("%+v, %v", a, err)
	}
	p = w.start(3)
	p.stuck = true
	w.pass(time.Minute)
	if w.state(3) != metadata.Starting {
		t.Errorf("broker 3 is %v, and has applied nothing", w.state(3))
	}
	p.stuck = false
	w.pass(time.Second)
	if w.state(3) != metadata.Active {
		t.Errorf("broker 3 is %v", w.state(3))
	}
}

// A controller that another one has replaced without its knowledge changes nothing, whatever it
// decides.
func TestADeposedControllerChangesNothing(t *testing.T) {
	w := three(t)
	w.procs[2].up = false
	w.pass(2 * time.Second)
	w.term++
	before := w.applier.Image().Version()
	var err error
	for range 8 {
		w.now += DefaultHeartbeatInterval
		if err = w.loop.step(t.Context(), w.now); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrNotController) {
		t.Errorf("a decision: %v", err)
	}
	if _, err := w.loop.Resign(t.Context(), 1, w.procs[1].epoch, []Resigned{{tpA, 0}}); !errors.Is(err, ErrNotController) {
		t.Errorf("a resignation: %v", err)
	}
	if _, err := w.loop.Register(t.Context(), &w.process(4).RegisterRequest); !errors.Is(err, ErrNotController) {
		t.Errorf("a registration: %v", err)
	}
	if got, _, err := w.store.Get(t.Context(), metadata.LivenessKey(2)); err != nil || got.ModRevision > before {
		t.Errorf("broker 2 changed at %d, after %d: %v", got.ModRevision, before, err)
	}
}

// A record of log directories names a whole topic. Only the partitions that it changes are
// examined.
func TestAPlacementConcernsItsPartition(t *testing.T) {
	w := three(t)
	none := metadata.Placement{}
	load := func(dirs map[int32][16]byte, revision int64) *metadata.Image {
		kv := metadata.KV{Key: metadata.PlacementKey(2, topicA), Value: none.With(dirs).Encode(), ModRevision: revision}
		img, err := metadata.Load([]metadata.KV{kv}, revision)
		must.OK(t, err)
		return img
	}
	prev, next := load(map[int32][16]byte{0: {1}, 1: {1}}, 1), load(map[int32][16]byte{0: {1}, 1: {2}}, 2)
	clear(w.loop.dirty)
	must.OK(t, w.loop.Follow(t.Context(), prev, next, metadata.Diff(prev, next)))
	if want := map[metadata.TopicPartition]bool{{Topic: topicA, Partition: 1}: true}; !maps.Equal(w.loop.dirty, want) {
		t.Errorf("%v", w.loop.dirty)
	}
}
