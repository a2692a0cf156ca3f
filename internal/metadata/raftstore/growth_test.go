package raftstore

import (
	"slices"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// add adds machines without a state.
func (w *world) add(n int) {
	for range n {
		m := &machine{w: w, id: len(w.machines), disk: crashfs.New(uint64(100 + len(w.machines)))}
		w.machines = append(w.machines, m)
		m.start()
	}
}

// grow does what the controller does for the first step of a growth: two learners, one joint
// change. It reports whether the growth is complete.
func (w *world) grow() bool {
	l := w.leader()
	if l == nil || l.node.change != nil {
		return false
	}
	if len(l.node.conf.GetVoters()) == 3 && len(l.node.conf.GetVotersOutgoing()) == 0 {
		return true
	}
	var list []*pb.ConfChangeSingle
	for _, m := range w.machines {
		switch {
		case m.node == nil || m == l:
		case !l.node.isMember(m.node.member):
			l.check(l.node.reconfigure(changes(single(pb.ConfChangeAddLearnerNode, m.node.member)), make(chan error, 1)))
			return false
		case l.node.caughtUp(m.node.member):
			list = append(list, single(pb.ConfChangeAddNode, m.node.member))
		}
	}
	if len(list) == 2 {
		l.check(l.node.reconfigure(changes(list...), make(chan error, 1)))
	}
	return false
}

// A machine loses power at every call of its disk while one member grows to three: each start
// applies the membership changes again, the growth completes, and nothing acknowledged is lost.
func TestGrowthSurvivesPowerLossAtEveryCall(t *testing.T) {
	for victim := range 2 { // the first voter, a learner
		for call := 0; ; call++ {
			w := newWorld(t, uint64(call), 1, broken{})
			w.add(2)
			disk := w.machines[victim].disk
			disk.CrashDuring(disk.Ops() + 1 + call)
			grown := false
			for i := 0; i < 600 && w.bad == nil && !grown; i++ {
				w.step()
				if l := w.leader(); l != nil && i%3 == 0 {
					w.propose(l)
				}
				for _, m := range w.machines {
					if m.node == nil {
						m.start()
					}
				}
				grown = w.grow()
			}
			if !grown {
				w.fail("the growth does not complete")
			}
			if w.bad == nil {
				w.converge()
			}
			for _, m := range w.machines {
				m.die()
			}
			if w.bad != nil {
				t.Fatalf("machine %d loses power at call %d: %v", victim, call, w.bad)
			}
			if !disk.Crashed() {
				if call < 10 {
					t.Errorf("machine %d makes only %d calls", victim, call)
				}
				break
			}
		}
	}
}

// The report of a transfer that ends while the files accept no writes reaches the library later:
// without it, the library would send that member nothing more.
func TestReportOfATransferWaitsForTheDisk(t *testing.T) {
	w := newWorld(t, 1, 1, broken{})
	n := w.machines[0].node
	n.fail(errDisk)
	if err := n.snapshotSent(5, nil); err != nil || len(n.reports) != 1 {
		t.Fatalf("%d reports wait, %v", len(n.reports), err)
	}
	for range 3 {
		must.OK(t, n.tick())
	}
	if n.failed != nil || len(n.reports) != 0 {
		t.Errorf("%d reports wait, %v", len(n.reports), n.failed)
	}
	w.machines[0].die()
}

// A lost voter of a joint change still counts until its end.
func TestVotersOfAJointChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 1, nil)
		defer c.close(t)
		leader, _ := ready(t, stores...)
		err := leader.do(t.Context(), func(n *node) error {
			was := n.conf
			n.configure(&pb.ConfState{Voters: []uint64{1, 4}, VotersOutgoing: []uint64{1, 3}})
			leader.note(n)
			if got := leader.Voters(); !slices.Equal(got, []uint64{1, 4, 1, 3}) {
				t.Errorf("voters %d", got)
			}
			for _, role := range []uint64{n.role.Leader, 0} { // as the leader, and as another member
				before := n.role
				n.role.Leader = role
				for _, m := range n.status().Members {
					if m.Member != n.member && m.Voter != (m.Member == 1 || m.Member == 3) {
						t.Errorf("%+v", m)
					}
				}
				n.role = before
			}
			n.configure(was)
			return nil
		})
		must.OK(t, err)
		synctest.Wait()
		if got := leader.Voters(); !slices.Equal(got, []uint64{leader.Member()}) {
			t.Errorf("voters %d", got)
		}
	})
}

// The directory of a voter that has lost the others is recovered with everything it has, completely
// or not at all, wherever the power fails; and what was acknowledged with the others is among it.
func TestRecoverSurvivesPowerLossAtEveryCall(t *testing.T) {
	for call, crashed := 0, true; crashed; call++ {
		synctest.Test(t, func(t *testing.T) { crashed = recoverAndCrash(t, call) })
		if !crashed && call < 5 {
			t.Errorf("only %d calls", call)
		}
	}
}

// recoverAndCrash reports whether the recovery has the call in which the power fails.
func recoverAndCrash(t *testing.T, call int) (crashed bool) {
	c, stores := voters(t, 3, nil)
	leader, _ := ready(t, stores...)
	if _, err := leader.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{{Key: "/a", Value: []byte("1")}}}); err != nil {
		t.Fatal(err)
	}
	c.close(t)

	disk := leader.opts.FS.(*crashfs.FS)
	disk.CrashDuring(disk.Ops() + 1 + call)
	_ = Recover(disk, "/m", [16]byte{9}, recovered) // it ends with the crash
	image := disk.PowerLossImage(crashfs.Modes()[call%len(crashfs.Modes())], uint64(call))
	got, err := Read(image, "/m")
	if err != nil || got.Member != leader.Member() || len(got.Voters) != 1 && len(got.Voters) != 3 ||
		len(got.Voters) == 1 != (got.Generation == [16]byte{9}) {
		t.Fatalf("call %d: %+v, %v", call, got, err)
	}
	if err := Recover(image, "/m", [16]byte{10}, recovered); err != nil {
		t.Fatalf("call %d: %v", call, err)
	}
	s, err := Open(Options{FS: image, Dir: "/m", Peers: &peers{c: newCluster()}})
	must.OK(t, err)
	if _, err := s.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{{Key: "/b"}}}); err != nil {
		t.Fatalf("call %d: %v", call, err)
	}
	for _, key := range []string{"/a", "/b", "/recovered"} {
		if kv, _, err := s.Get(t.Context(), key); err != nil || kv.ModRevision == 0 {
			t.Fatalf("call %d: %s: %+v, %v", call, key, kv, err)
		}
	}
	if s.Generation() != [16]byte{10} {
		t.Errorf("generation %x", s.Generation())
	}
	must.OK(t, s.Close())
	return disk.Crashed()
}

// restore is what chronikd recover does with a copy.
func restore(fsys vfs.FS, generation [16]byte) error {
	keys, revision, err := ReadAll(fsys, "/m")
	if err != nil {
		return err
	}
	if keys, revision, err = recovered(keys, revision); err != nil {
		return err
	}
	return Begin(fsys, "/new", generation, keys, revision)
}

// A copy of a member's directory, made while the member runs, becomes another member with all that
// the copy has, completely or not at all, wherever the power fails.
func TestRestoreSurvivesPowerLossAtEveryCall(t *testing.T) {
	for call, crashed := 0, true; crashed; call++ {
		synctest.Test(t, func(t *testing.T) {
			c, stores := voters(t, 3, nil)
			leader, _ := ready(t, stores...)
			mustTxn(t, leader, put("/a", "1"))
			disk := leader.opts.FS.(*crashfs.FS).KillImage(1)
			mustTxn(t, leader, put("/late", "1"))
			c.close(t)
			disk.CrashDuring(disk.Ops() + 1 + call)
			_ = restore(disk, [16]byte{9})
			crashed = disk.Crashed()
			image := disk.PowerLossImage(crashfs.Modes()[call%len(crashfs.Modes())], uint64(call))
			got, err := Read(image, "/new")
			if err != nil || got.Used && (len(got.Voters) != 1 || got.Member == leader.Member() || got.Generation != [16]byte{9}) {
				t.Fatalf("call %d: %+v, %v", call, got, err)
			}
			if !got.Used {
				err = restore(image, [16]byte{10})
			}
			if err != nil {
				t.Fatalf("call %d: %v", call, err)
			}
			if err := restore(image, [16]byte{11}); err == nil {
				t.Errorf("call %d: a second restore replaces the first one", call)
			}
			s, err := Open(Options{FS: image, Dir: "/new", Peers: &peers{c: newCluster()}})
			must.OK(t, err)
			mustTxn(t, s, put("/b", "1"))
			for key, there := range map[string]bool{"/a": true, "/b": true, "/recovered": true, "/late": false} {
				if kv, _, err := s.Get(t.Context(), key); err != nil || kv.ModRevision > 0 != there {
					t.Errorf("call %d: %s: %+v, %v", call, key, kv, err)
				}
			}
			must.OK(t, s.Close())
		})
		if !crashed && call < 5 {
			t.Errorf("only %d calls", call)
		}
	}
}

func recovered(keys []metadata.KV, revision int64) ([]metadata.KV, int64, error) {
	keys = slices.DeleteFunc(keys, func(kv metadata.KV) bool { return kv.Key == "/recovered" })
	return append(keys, metadata.KV{Key: "/recovered", Value: []byte("yes"), ModRevision: revision + 9}), revision + 9, nil
}

// Read shows the members after the changes in the log, not only those of the last snapshot: recover
// takes a directory for that of the only voter otherwise, and asks no other one.
func TestReadAppliesMemberChanges(t *testing.T) {
	fsys := vfs.Memory()
	s, err := Open(Options{FS: fsys, Dir: "/m", Peers: &peers{c: newCluster()}})
	must.OK(t, err)
	must.OK(t, s.Bootstrap(Initial{Generation: [16]byte{7}, Voters: []uint64{s.Member()}, Revision: 3}))
	must.OK(t, s.WaitFor(t.Context(), 3))
	if _, err := s.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{{Key: "/b"}}}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, s.AddLearner(t.Context(), 77))
	must.OK(t, s.Close())
	c, err := Read(fsys, "/m")
	if err != nil || !slices.Equal(c.Learners, []uint64{77}) || !slices.Equal(c.Voters, []uint64{c.Member}) {
		t.Errorf("voters %x, learners %x of member %x, %v", c.Voters, c.Learners, c.Member, err)
	}
}

// A change that may or may not be committed adds to the voters that Read shows, and so does a joint
// one until its end.
func TestReadShowsAllVotersThatMayDecide(t *testing.T) {
	replace := changes(single(pb.ConfChangeRemoveNode, 3), single(pb.ConfChangeAddNode, 4))
	entry := func(index uint64, cc *pb.ConfChangeV2) *pb.Entry {
		return &pb.Entry{Index: new(index), Term: new(uint64(1)), Type: pb.EntryConfChangeV2.Enum(), Data: marshal(cc)}
	}
	for commit, want := range map[uint64][]uint64{1: {1, 2, 3, 4}, 2: {1, 2, 3, 4}, 3: {1, 2, 4}} {
		l := newLoader()
		l.meta = meta{member: 1, conf: &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}}
		l.log.conf = l.meta.conf
		l.log.reset(1, 1)
		l.log.hard = &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(commit)}
		for _, e := range []*pb.Entry{entry(2, replace), entry(3, &pb.ConfChangeV2{})} {
			must.OK(t, l.log.append(e))
		}
		if voters, learners, err := l.members(); err != nil || !slices.Equal(voters, want) || len(learners) != 0 {
			t.Errorf("commit %d: voters %d, learners %d, %v", commit, voters, learners, err)
		}
	}
}
