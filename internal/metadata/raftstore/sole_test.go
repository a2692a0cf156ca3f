package raftstore

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ticksOf returns how often a member's time has advanced.
func ticksOf(t *testing.T, s *Store) uint64 {
	t.Helper()
	ticks := make(chan uint64, 1)
	must.OK(t, s.do(t.Context(), func(n *node) error { ticks <- n.ticks; return nil }))
	return <-ticks
}

// The only voter needs neither time nor questions: it leads when it is open, and is confirmed
// whenever it is asked. As soon as there is another member, its time continues.
func TestTheOnlyVoterNeedsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 1, nil)
		defer c.close(t)
		s := stores[0]
		if role, _ := s.Leadership(); !role.Ready || s.Sole() == 0 {
			t.Fatalf("%+v, sole %d", role, s.Sole())
		}
		mustTxn(t, s, put("/a", "1"))
		before := ticksOf(t, s)
		time.Sleep(time.Hour)
		if at := s.Confirmed(); !at.Equal(time.Now()) || ticksOf(t, s) != before || s.Hanging() != 0 {
			t.Errorf("after an hour: confirmed %v ago, %d ticks, hangs for %v", time.Since(at), ticksOf(t, s)-before, s.Hanging())
		}
		second := c.add(t, vfs.Memory())
		must.OK(t, s.AddLearner(t.Context(), second.Member()))
		time.Sleep(time.Second)
		if ticksOf(t, s) == before {
			t.Error("time stands still although there is a second member")
		}
		if kv, _, err := second.Get(t.Context(), "/a"); err != nil || string(kv.Value) != "1" {
			t.Errorf("the second member has %q, %v", kv.Value, err)
		}
	})
}

// Sole is 0 as soon as this member has applied that there are other voters, and another number when
// they are gone again: what held for the first time need not hold for the second.
func TestSoleNamesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 1, nil)
		defer c.close(t)
		s, first := stores[0], stores[0].Sole()
		second := c.add(t, vfs.Memory())
		must.OK(t, s.AddLearner(t.Context(), second.Member()))
		time.Sleep(time.Second)
		if s.Sole() != first || second.Sole() != 0 {
			t.Errorf("with a learner: %d after %d, the learner %d", s.Sole(), first, second.Sole())
		}
		must.OK(t, s.SetVoters(t.Context(), s.Member(), second.Member()))
		if s.Sole() != 0 || second.Sole() != 0 {
			t.Errorf("with two voters: %d and %d", s.Sole(), second.Sole())
		}
		time.Sleep(time.Second)
		must.OK(t, s.SetVoters(t.Context(), s.Member()))
		if again := s.Sole(); again == 0 || again == first {
			t.Errorf("alone again: %d after %d", again, first)
		}
	})
}

// A member that was a voter until now may have been asked to lead before it lost its vote. The only
// voter does not elect it.
func TestTheOnlyVoterVotesForNobodyElse(t *testing.T) {
	n := newWorld(t, 1, 1, broken{}).machines[0].node
	for !n.role.Ready {
		must.OK(t, n.tick())
	}
	role, last := n.role, n.mem.last()
	term, err := n.mem.Term(last)
	must.OK(t, err)
	if err := n.step(&pb.Message{Type: pb.MsgVote.Enum(), From: new(uint64(99)), To: new(n.member), Term: new(term + 1), LogTerm: new(term),
		Index: new(last), Context: []byte("CampaignTransfer")}); err != nil {
		t.Fatal(err)
	}
	if n.role != role || n.mem.hard.GetTerm() != term {
		t.Errorf("it was %+v, and is %+v in term %d after it voted for %x", role, n.role, n.mem.hard.GetTerm(), n.mem.hard.GetVote())
	}
}

// The only voter whose disk failed tries to write again with the next transaction, and then leads
// at once: no other member can have led meanwhile.
func TestTheOnlyVoterWritesAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		defer c.close(t)
		disk := errfs.New(vfs.Memory())
		s := c.add(t, disk)
		must.OK(t, s.Bootstrap(Initial{Generation: [16]byte{1}, Voters: []uint64{s.Member()}, Revision: 1}))
		fault := disk.Add(errfs.Rule{Ops: errfs.Write | errfs.Create | errfs.Datasync, Path: "/m/*", Err: syscall.ENOSPC})
		if _, err := s.Txn(t.Context(), put("/a", "1")); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("on a full disk: %v", err)
		}
		for range 100 { // clients that repeat do not fill the disk with attempts
			if _, err := s.Txn(t.Context(), put("/a", "2")); !errors.Is(err, metadata.ErrFailed) {
				t.Fatalf("still full: %v", err)
			}
		}
		if n := fault.Hits(); n > 2*(1+maxRetries) {
			t.Errorf("%d writes failed", n)
		}
		time.Sleep(defaultTick)
		began := time.Now()
		fault.Off()
		mustTxn(t, s, put("/a", "3"))
		if role, _ := s.Leadership(); time.Since(began) > 0 || s.Failed() != nil || !role.Ready {
			t.Errorf("it took %v; %+v, %v", time.Since(began), role, s.Failed())
		}
	})
}

// A disk that hangs is known while it hangs.
func TestAHangingLoopIsKnown(t *testing.T) {
	c := newCluster()
	defer c.close(t)
	disk := errfs.New(vfs.Memory())
	s := c.add(t, disk)
	must.OK(t, s.Bootstrap(Initial{Generation: [16]byte{1}, Voters: []uint64{s.Member()}, Revision: 1}))
	free, hangs := make(chan struct{}), make(chan struct{}, 1)
	disk.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/m/*", Count: 1, Before: func(errfs.Call) { hangs <- struct{}{}; <-free }})
	done := make(chan error, 1)
	go func() {
		_, err := s.Txn(context.Background(), put("/a", "1"))
		done <- err
	}()
	<-hangs
	if s.Hanging() <= 0 {
		t.Error("it hangs, and Hanging is 0")
	}
	close(free)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The only voter leads at once also if its log has a change of the members that it had not applied
// when it was killed.
func TestTheOnlyVoterLeadsAtOnceAfterAChangeOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disk := newCluster(), crashfs.New(1)
		defer c.close(t)
		s := c.add(t, disk)
		must.OK(t, s.Bootstrap(Initial{Generation: [16]byte{1}, Voters: []uint64{s.Member()}, Revision: 1}))
		second := c.add(t, vfs.Memory())
		must.OK(t, s.AddLearner(t.Context(), second.Member()))
		revision, err := s.Txn(t.Context(), put("/a", "2"))
		must.OK(t, err)
		later := newCluster()
		defer later.close(t)
		again := later.add(t, disk.KillImage(1))
		if role, _ := again.Leadership(); !role.Ready || again.View().Revision() != revision {
			t.Errorf("%+v at revision %d, want %d", role, again.View().Revision(), revision)
		}
	})
}
