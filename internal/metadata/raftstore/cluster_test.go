package raftstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/storetest"
	"github.com/chronik-io/chronik/internal/vfs"
)

var errCut = errors.New("the network is cut")

// cluster is several stores in one process. Its network delivers at once, or never.
type cluster struct {
	mu     sync.Mutex
	stores map[uint64]*Store
	cut    map[uint64]bool // members that reach no other one
	deaf   map[uint64]bool // members to which nothing arrives
	calls  int             // calls that fail, counted down
}

// peers implements Peers for one member.
type peers struct {
	c    *cluster
	self uint64
}

// to returns the store of a member that can be reached, and the own member id.
func (p *peers) to(member uint64) (*Store, uint64) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.c.cut[p.self] || p.c.cut[member] || p.c.deaf[member] {
		return nil, p.self
	}
	return p.c.stores[member], p.self
}

func (p *peers) Send(member uint64, message []byte) {
	if s, self := p.to(member); s != nil {
		_ = s.Receive(self, message) // a refused message is a lost one
	}
}

func (p *peers) Call(ctx context.Context, member uint64, request []byte) ([]byte, error) {
	s, self := p.to(member)
	if s == nil {
		return nil, ErrNotSent
	}
	p.c.mu.Lock()
	p.c.calls--
	fails := p.c.calls >= 0
	p.c.mu.Unlock()
	if fails {
		return nil, errCut
	}
	response, err := s.Handle(ctx, self, request)
	p.c.mu.Lock()
	deaf := p.c.deaf[p.self]
	p.c.mu.Unlock()
	if s, _ := p.to(member); s == nil || deaf {
		return nil, errCut // the request arrived, the response does not
	}
	return response, err
}

// add opens a member on a file system.
func (c *cluster) add(t testing.TB, fsys vfs.FS, change ...func(*Options)) *Store {
	t.Helper()
	p := &peers{c: c}
	opts := Options{
		FS: fsys, Dir: "/m", Log: zap.NewNop(), Peers: p, Fatal: func(err error) { t.Errorf("fatal: %v", err) },
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := Open(opts)
	must.OK(t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.self = s.Member()
	c.stores[s.Member()] = s
	return s
}

func (c *cluster) isolate(s *Store, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[s.Member()] = cut
}

func newCluster() *cluster {
	return &cluster{stores: map[uint64]*Store{}, cut: map[uint64]bool{}, deaf: map[uint64]bool{}}
}

func (c *cluster) close(t testing.TB) {
	for _, s := range c.stores {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// voters opens and bootstraps members on crashfs disks.
func voters(t testing.TB, n int, wrap func(i int, fsys vfs.FS) vfs.FS) (*cluster, []*Store) {
	t.Helper()
	c := newCluster()
	var stores []*Store
	initial := Initial{Generation: [16]byte{7}}
	for i := range n {
		var fsys vfs.FS = crashfs.New(uint64(i))
		if wrap != nil {
			fsys = wrap(i, fsys)
		}
		s := c.add(t, fsys)
		stores, initial.Voters = append(stores, s), append(initial.Voters, s.Member())
	}
	for _, s := range stores {
		if err := s.Bootstrap(initial); err != nil && !errors.Is(err, ErrNotEmpty) { // then it has voted already
			t.Fatal(err)
		}
	}
	return c, stores
}

// ready waits until one of the stores leads, and returns it and the others.
func ready(t testing.TB, stores ...*Store) (leader *Store, others []*Store) {
	t.Helper()
	for range 1000 {
		for i, s := range stores {
			if role, _ := s.Leadership(); role.Ready {
				others = append(append(others, stores[:i]...), stores[i+1:]...)
				return s, others
			}
		}
		time.Sleep(defaultTick) // virtual time
	}
	t.Fatal("no leader")
	return nil, nil
}

// shown is a store whose Txn returns when the store shows it, as a single node's does.
type shown struct {
	*Store
	c *cluster
	t testing.TB
}

func (s shown) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	revision, err := s.Store.Txn(ctx, t)
	if err == nil {
		err = s.WaitFor(ctx, revision)
	}
	return revision, err
}

func (s shown) Close() error {
	err := s.Store.Close()
	s.c.close(s.t)
	return err
}

func TestStoreKeepsTheContract(t *testing.T) {
	t.Run("leader of one", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) metadata.Store {
			_, stores := voters(t, 1, nil)
			leader, _ := ready(t, stores...)
			return leader
		})
	})
	t.Run("leader of three", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) metadata.Store {
			c, stores := voters(t, 3, nil)
			leader, _ := ready(t, stores...)
			return shown{leader, c, t}
		})
	})
	t.Run("follower", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) metadata.Store {
			c, stores := voters(t, 3, nil)
			_, others := ready(t, stores...)
			return shown{others[0], c, t}
		})
	})
}

func put(key, value string) metadata.Txn {
	return metadata.Txn{Put: []metadata.KV{{Key: key, Value: []byte(value)}}}
}

func mustTxn(t testing.TB, s metadata.Store, txn metadata.Txn) int64 {
	t.Helper()
	revision, err := s.Txn(context.Background(), txn)
	must.OK(t, err)
	return revision
}

func mustShow(t testing.TB, s *Store, revision int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must.OK(t, s.WaitFor(ctx, revision))
}

// A conflict that another member decided names a revision that this member may not show yet.
func TestConflictNamesTheRevisionOfTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 3, nil)
		defer c.close(t)
		leader, others := ready(t, stores...)
		rev := mustTxn(t, leader, put("/a", "1"))
		_, err := others[0].Txn(context.Background(), metadata.Txn{If: []metadata.Compare{{Key: "/a"}}, Put: []metadata.KV{{Key: "/a"}}})
		var conflict *metadata.ConflictError
		if !errors.As(err, &conflict) || conflict.Revision != rev || conflict.Found != rev || conflict.Key != "/a" {
			t.Fatalf("the conflict is %v", err)
		}
		mustShow(t, others[0], conflict.Revision)
		if kv, _, _ := others[0].Get(context.Background(), "/a"); string(kv.Value) != "1" {
			t.Errorf("after WaitFor: %+v", kv)
		}
	})
}

// A leader whose disk fails is replaced, says why it accepts nothing, and comes back when its disk
// does.
func TestLeaderWithFailingDiskIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disks []*errfs.FS
		c, stores := voters(t, 3, func(_ int, fsys vfs.FS) vfs.FS {
			disks = append(disks, errfs.New(fsys))
			return disks[len(disks)-1]
		})
		defer c.close(t)
		leader, others := ready(t, stores...)
		for i, s := range stores {
			if s == leader {
				disks[i].Add(errfs.Rule{Ops: errfs.Datasync, Err: errDisk, Drop: errfs.DropCached})
			}
		}
		_, err := leader.Txn(context.Background(), put("/a", "1"))
		if !errors.Is(err, metadata.ErrUnknown) || !errors.Is(err, metadata.ErrFailed) {
			t.Errorf("the transaction whose write failed: %v", err)
		}
		if err := leader.Failed(); !errors.Is(err, metadata.ErrFailed) {
			t.Errorf("the failed member: %v", err)
		}
		if _, err := leader.Txn(context.Background(), put("/a", "2")); !errors.Is(err, metadata.ErrFailed) {
			t.Errorf("another transaction there: %v", err)
		}
		next, _ := ready(t, others...)
		rev := mustTxn(t, next, put("/a", "3"))
		for _, d := range disks {
			d.Clear()
		}
		mustShow(t, leader, rev)
		if role, _ := leader.Leadership(); leader.Failed() != nil || role.Ready || role.Leader != next.Member() {
			t.Errorf("after its disk is back: %v, %+v", leader.Failed(), role)
		}
	})
}

// A leader whose disk failed does not know, when the disk is back, whether it was replaced: it is
// not ready before a majority answers.
func TestLeaderThatFailedIsNotReadyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disks []*errfs.FS
		c, stores := voters(t, 3, func(_ int, fsys vfs.FS) vfs.FS {
			disks = append(disks, errfs.New(fsys))
			return disks[len(disks)-1]
		})
		defer c.close(t)
		leader, others := ready(t, stores...)
		for _, d := range disks {
			d.Add(errfs.Rule{Ops: errfs.Datasync, Err: errDisk, Drop: errfs.DropCached})
		}
		_, _ = leader.Txn(context.Background(), put("/a", "1"))
		c.isolate(leader, true)
		for _, d := range disks {
			d.Clear()
		}
		for leader.Failed() != nil {
			time.Sleep(defaultTick)
		}
		for range 2 * electionTicks {
			if role, _ := leader.Leadership(); role.Ready {
				t.Fatalf("ready without an answer: %+v", role)
			}
			time.Sleep(defaultTick)
		}
		ready(t, others...)
	})
}

func TestCutOffLeaderCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 3, nil)
		defer c.close(t)
		leader, others := ready(t, stores...)
		role, _ := leader.Leadership()
		for leader.Confirmed().IsZero() {
			time.Sleep(defaultTick)
		}
		confirmed := leader.Confirmed()
		c.isolate(leader, true)
		if _, err := leader.LeaderTxn(context.Background(), role.Term, put("/a", "old")); !errors.Is(err, metadata.ErrUnknown) {
			t.Errorf("a transaction of the cut-off leader: %v", err)
		}
		if was := leader.Confirmed(); !was.IsZero() && was.After(confirmed.Add(defaultTick)) {
			t.Errorf("it was confirmed %v after the cut", was.Sub(confirmed))
		}
		next, _ := ready(t, others...)
		rev := mustTxn(t, next, put("/a", "new"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := leader.Txn(ctx, put("/a", "old")); !errors.Is(err, metadata.ErrUnavailable) {
			t.Errorf("a transaction without a leader: %v", err)
		}
		if _, err := leader.LeaderTxn(context.Background(), role.Term, put("/a", "old")); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a transaction of the deposed leader: %v", err)
		}
		c.isolate(leader, false)
		mustShow(t, leader, rev)
		if _, err := next.LeaderTxn(context.Background(), role.Term, put("/a", "old")); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a transaction in an old term: %v", err)
		}
		if kv, _, _ := leader.Get(context.Background(), "/a"); string(kv.Value) != "new" {
			t.Errorf("holds %s", kv.Value)
		}
		if next.Confirmed().IsZero() {
			t.Error("the new leader is not confirmed")
		}
	})
}

func TestResignHandsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 3, nil)
		defer c.close(t)
		leader, others := ready(t, stores...)
		began := time.Now()
		must.OK(t, leader.Resign(context.Background()))
		ready(t, others...)
		if d := time.Since(began); d > 5*defaultTick {
			t.Errorf("it took %v", d)
		}
	})
}

// A leader that loses its vote hands over to a voter that keeps its own, and to no other.
func TestResignChoosesTheSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 3, nil)
		defer c.close(t)
		for range 2 {
			leader, others := ready(t, stores...)
			for _, next := range others {
				time.Sleep(5 * defaultTick) // a new leader hears each of the others
				must.OK(t, leader.Resign(t.Context(), next.Member()))
				if leader, _ = ready(t, stores...); leader != next {
					t.Fatalf("member %x leads, %x was chosen", leader.Member(), next.Member())
				}
			}
			if err := leader.Resign(t.Context(), 77); !errors.Is(err, ErrNoQuorum) {
				t.Errorf("handed over to nothing: %v", err)
			}
		}
	})
}

// One member grows to three: both learners get the state in pieces, although a piece is lost, and
// become voters in one change. Then the first one may go.
func TestGrowFromOneToThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, stores := voters(t, 1, nil)
		defer c.close(t)
		leader, _ := ready(t, stores...)
		for i := range 40 {
			mustTxn(t, leader, put(fmt.Sprintf("/k%02d", i), strings.Repeat("x", 64<<10)))
		}
		for i := range 200 { // more than the log keeps
			mustTxn(t, leader, put("/big", strings.Repeat("y", 64<<10)+fmt.Sprint(i)))
		}
		a, b := c.add(t, crashfs.New(8)), c.add(t, crashfs.New(9))
		if err := leader.SetVoters(ctx, leader.Member(), a.Member(), b.Member()); !errors.Is(err, ErrNotCaughtUp) {
			t.Errorf("a member that was not added is promoted: %v", err)
		}
		c.mu.Lock()
		c.calls = 3
		c.mu.Unlock()
		for _, m := range []*Store{a, b} {
			must.OK(t, errors.Join(leader.AddLearner(ctx, m.Member()), leader.AddLearner(ctx, m.Member())))
		}
		rev := mustTxn(t, leader, put("/a", "1"))
		mustShow(t, a, rev)
		mustShow(t, b, rev)
		err := ErrNotCaughtUp
		for range 100 {
			if err = leader.SetVoters(ctx, leader.Member(), a.Member(), b.Member()); err == nil {
				break
			}
			time.Sleep(defaultTick)
		}
		must.OK(t, err)
		if a.Generation() != leader.Generation() {
			t.Error("another generation")
		}
		for _, s := range []*Store{leader, a, b} {
			kvs, _, _ := s.Range(ctx, "/k")
			if len(kvs) != 40 {
				t.Errorf("%d keys", len(kvs))
			}
		}
		if err := leader.Remove(ctx, leader.Member()); err == nil {
			t.Error("the leader removed itself")
		}
		must.OK(t, leader.Resign(ctx))
		next, _ := ready(t, a, b)
		must.OK(t, next.Remove(ctx, leader.Member()))
		if st := next.Status(t.Context()); len(st.Members) != 2 || !st.Members[0].Voter || !st.Members[1].Voter || st.Keys != 42 {
			t.Errorf("status %+v", st)
		}
		mustTxn(t, next, put("/a", "2"))
	})
}

// Votes move in one step, also those of members that do not answer, and a former voter still gets
// the metadata.
func TestSetVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, stores := voters(t, 5, nil)
		defer c.close(t)
		leader, others := ready(t, stores...)
		mustTxn(t, leader, put("/a", "1"))
		if err := leader.SetVoters(ctx, others[0].Member(), others[1].Member(), others[2].Member()); !errors.Is(err, ErrStillActive) {
			t.Errorf("the leader takes its own vote: %v", err)
		}
		c.isolate(others[3], true)
		three := []uint64{leader.Member(), others[0].Member(), others[1].Member()}
		var err error
		for range 100 { // until each of them was heard
			if err = leader.SetVoters(ctx, three...); err == nil {
				break
			}
			time.Sleep(defaultTick)
		}
		must.OK(t, err)
		c.isolate(others[0], true) // two of three are a majority now
		rev := mustTxn(t, leader, put("/a", "2"))
		mustShow(t, others[2], rev)
		for _, m := range leader.Status(t.Context()).Members {
			if m.Voter != slices.Contains(three, m.Member) {
				t.Errorf("%+v, the voters are %x", m, three)
			}
		}
		time.Sleep(2 * time.Second)
		if err := leader.SetVoters(ctx, leader.Member(), others[0].Member(), others[3].Member()); !errors.Is(err, ErrNotCaughtUp) {
			t.Errorf("a member that does not answer gets a vote: %v", err)
		}
		c.isolate(others[0], false)
		c.isolate(others[3], false)
		mustShow(t, others[3], mustTxn(t, leader, put("/a", "3")))
	})
}

func TestReplaceWaitsForSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, stores := voters(t, 3, nil)
		defer c.close(t)
		leader, others := ready(t, stores...)
		spare := c.add(t, crashfs.New(9))
		must.OK(t, leader.AddLearner(ctx, spare.Member()))
		mustShow(t, spare, mustTxn(t, leader, put("/a", "1")))
		time.Sleep(time.Second)
		former := others[0].Member()
		if err := leader.Replace(ctx, former, spare.Member()); !errors.Is(err, ErrStillActive) {
			t.Errorf("a voter that answers is replaced: %v", err)
		}
		c.isolate(others[0], true)
		time.Sleep(electionTicks * defaultTick / 2)
		if err := leader.Replace(ctx, former, spare.Member()); !errors.Is(err, ErrStillActive) {
			t.Errorf("a voter that answered half a second ago is replaced: %v", err)
		}
		time.Sleep(electionTicks * defaultTick)
		must.OK(t, leader.Replace(ctx, former, spare.Member()))
		st := leader.Status(t.Context())
		for _, m := range st.Members {
			if m.Member == former || m.Member == spare.Member() && !m.Voter {
				t.Errorf("members %+v", st.Members)
			}
		}
	})
}

// The first members do not wait for an election timeout.
func TestTheFirstElectionIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		c, stores := voters(t, 3, nil)
		defer c.close(t)
		ready(t, stores...)
		if d := time.Since(begun); d > 3*defaultTick {
			t.Errorf("it took %v", d)
		}
	})
}

// Without a voter that could lead, a stop does not wait for one.
func TestResignWithoutOtherVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{1, 3} {
			c, stores := voters(t, n, nil)
			leader, others := ready(t, stores...)
			for _, s := range others {
				c.isolate(s, true)
			}
			time.Sleep(promoteWithin + 2*defaultTick)
			begun := time.Now()
			if err := leader.Resign(context.Background()); !errors.Is(err, ErrNoQuorum) || time.Since(begun) > 0 {
				t.Errorf("%d voters: %v after %v", n, err, time.Since(begun))
			}
			c.close(t)
		}
	})
}

// A disk that hangs holds up nothing longer than its caller waits.
func TestADiskThatHangsHoldsUpNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := make([]*errfs.FS, 3)
		c, stores := voters(t, 3, func(i int, fsys vfs.FS) vfs.FS {
			disks[i] = errfs.New(fsys)
			return disks[i]
		})
		leader, _ := ready(t, stores...)
		other := leader.Member() + 2
		healed := make(chan struct{})
		defer c.close(t)
		defer close(healed)
		for i, s := range stores {
			if s == leader {
				disks[i].Add(errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-healed }})
			}
		}
		put := func(ctx context.Context) error {
			_, err := leader.Txn(ctx, metadata.Txn{Put: []metadata.KV{{Key: "k"}}})
			return err
		}
		first, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := put(first); !errors.Is(err, metadata.ErrUnknown) {
			t.Fatal(err)
		}
		for name, call := range map[string]func(context.Context) error{
			"Txn":        put,
			"Resign":     func(ctx context.Context) error { return leader.Resign(ctx) },
			"AddLearner": func(ctx context.Context) error { return leader.AddLearner(ctx, other) },
			"Status":     func(ctx context.Context) error { leader.Status(ctx); return ctx.Err() },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begun := time.Now()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
			cancel()
		}
	})
}

func TestForeignMessagesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 2, nil)
		defer c.close(t)
		s, other := stores[0], stores[1].Member()
		for name, p := range map[string][]byte{
			"another generation": newHeader([16]byte{8}, other, s.Member()),
			"another member":     newHeader([16]byte{7}, other, 5),
			"another sender":     newHeader([16]byte{7}, 5, s.Member()),
		} {
			if err := s.Receive(other, p); !errors.Is(err, errForeign) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := s.Handle(context.Background(), other, append(p, requestTxn)); !errors.Is(err, errForeign) {
				t.Errorf("request, %s: %v", name, err)
			}
		}
		if err := s.Bootstrap(Initial{Generation: [16]byte{9}, Voters: []uint64{s.Member()}}); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("a second bootstrap: %v", err)
		}
	})
}

// A voter's directory that is put back from a copy has forgotten what the voter acknowledged. The
// leader's heartbeat shows it, and the process ends.
func TestDirectoryFromACopyEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := map[int]*crashfs.FS{}
		c, stores := voters(t, 3, func(i int, fsys vfs.FS) vfs.FS {
			disks[i] = fsys.(*crashfs.FS)
			return fsys
		})
		defer c.close(t)
		leader, _ := ready(t, stores...)
		i := 0
		for stores[i] == leader {
			i++
		}
		old := disks[i].KillImage(1)
		mustShow(t, stores[i], mustTxn(t, leader, put("/a", "1")))
		c.isolate(stores[i], true)
		must.OK(t, stores[i].Close())
		died := make(chan error, 1)
		c.mu.Lock()
		c.cut = map[uint64]bool{}
		c.mu.Unlock()
		back := c.add(t, old, func(o *Options) { o.Fatal = func(err error) { died <- err } })
		if err := <-died; !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "empty this directory") {
			t.Errorf("the cause is %v", err)
		}
		_ = back.Close() // reports the cause again
		c.mu.Lock()
		delete(c.stores, back.Member())
		c.mu.Unlock()
		if _, err := back.Txn(context.Background(), put("/a", "1")); !errors.Is(err, metadata.ErrClosed) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// Records that match their checksums, but not each other, are damage of the log, for a start as for
// a reader.
func TestContradictingRecordsAreDamage(t *testing.T) {
	fsys := crashfs.New(1)
	must.OK(t, Begin(fsys, "/m", [16]byte{1}, nil, 1))
	disk, _, err := statelog.Open(statelog.Options{FS: fsys, Dir: "/m", Format: format, Log: zap.NewNop()}, newLoader())
	must.OK(t, err)
	m := meta{member: 3, index: 1, term: 1, revision: 1, conf: &pb.ConfState{Voters: []uint64{3}}}
	must.OK(t, errors.Join(disk.Rotate(emitState(m, nil, &pb.HardState{Commit: new(uint64(9))}, nil)), disk.Close()))
	_, readErr := Read(fsys, "/m")
	_, openErr := Open(Options{FS: fsys, Dir: "/m", Log: zap.NewNop()})
	for _, err := range []error{readErr, openErr} {
		var damage *statelog.Damage
		if !errors.As(err, &damage) || damage.File == "" || !strings.Contains(damage.What, "commit index 9") {
			t.Errorf("found %v", err)
		}
	}
}

// The directory of a stopped member can be read, and a new cluster can start from its state.
func TestReadReturnsWhatADirectoryHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		c := newCluster()
		s := c.add(t, fsys)
		initial := Initial{Generation: [16]byte{7}, Voters: []uint64{s.Member()}, Revision: 41,
			Keys: []metadata.KV{{Key: "/a", Value: []byte("1"), ModRevision: 40}}}
		must.OK(t, s.Bootstrap(initial))
		ready(t, s)
		mustTxn(t, s, put("/b", "2"))
		must.OK(t, s.Close())
		got, err := Read(fsys, "/m")
		if err != nil || got.Revision != 42 || len(got.Keys) != 2 || got.Keys[1].ModRevision != 42 || got.Pending != 0 ||
			got.Member != s.Member() || got.Generation != initial.Generation || len(got.Voters) != 1 {
			t.Errorf("found %+v, %v", got, err)
		}
		again := c.add(t, fsys)
		defer again.Close()
		if kvs, rev, _ := again.Range(context.Background(), ""); again.Member() != s.Member() || rev != 42 || len(kvs) != 2 {
			t.Errorf("opened again: member %x, revision %d, %v", again.Member(), rev, kvs)
		}
	})
}

// One transaction alone costs one fdatasync of a sole voter.
func TestTransactionCostsOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		c := newCluster()
		s := c.add(t, fsys)
		defer c.close(t)
		must.OK(t, s.Bootstrap(Initial{Generation: [16]byte{7}, Voters: []uint64{s.Member()}}))
		ready(t, s)
		before := fsys.Syncs()
		for range 10 {
			mustTxn(t, s, put("/a", "1"))
		}
		if n := fsys.Syncs() - before; n != 10 {
			t.Errorf("%d syncs for 10 transactions", n)
		}
	})
}
