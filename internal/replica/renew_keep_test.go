package replica

import (
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// renewed returns a broker whose log of a shared partition was damaged, replaced and made again:
// it copies from broker 2. What was replaced has files.
func renewed(t *testing.T, fs vfs.FS, c *cluster) (life, metadata.TopicPartition) {
	t.Helper()
	tp, damaged := beforeRenewal(t, fs, c)
	must(t, c.show(t, damaged.Manager))
	waitFor(t, "a new log", func() bool { // in another epoch
		must(t, c.show(t, damaged.Manager))
		damaged.renew()
		return damaged.has(idA, 0) && len(damaged.storage.Replaced()) == 1
	})
	return damaged, tp
}

// beforeRenewal returns a broker whose log is damaged, and metadata that say so, which it has not
// seen yet.
func beforeRenewal(t *testing.T, fs vfs.FS, c *cluster) (metadata.TopicPartition, life) {
	t.Helper()
	l := start(t, fs, c)
	tp := c.shared(idA, self, 4)
	c.register(2, [16]byte{2})
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	must(t, begin(t, l.partition(t, idA, 0), AcksLeader, 1).wait(t))
	must(t, c.change(tp, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = 2, 5 }))
	must(t, c.apply(t, l.Manager))
	must(t, l.storage.Close())
	infos, err := fs.List("/d/a-0")
	must(t, err)
	for _, in := range infos {
		if strings.HasSuffix(in.Name, ".log") {
			must(t, fs.Remove("/d/a-0/"+in.Name))
		}
	}
	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	if p := l.partition(t, idA, 0); p.Log().Flaw() == nil {
		t.Fatal("the log is not damaged")
	}
	c.put(metadata.LivenessKey(self), metadata.BrokerState{Liveness: metadata.Active, Damaged: []metadata.TopicPartition{tp}}.Encode())
	must(t, c.change(tp, func(p *metadata.Partition) { p.ISR = []int32{2} }))
	return tp, l
}

// What was replaced may have records that no other replica has after an unclean election.
func TestAReplacedLogOutlivesAnUncleanElection(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l, tp := renewed(t, fs, c)
	c.put(metadata.LivenessKey(self), metadata.BrokerState{Liveness: metadata.Active}.Encode())
	must(t, c.change(tp, func(p *metadata.Partition) { // of the incomplete copy
		p.Leader, p.LeaderEpoch, p.Unclean, p.ISR = self, 7, 7, []int32{self}
	}))
	stays := func(what string) {
		t.Helper()
		must(t, c.apply(t, l.Manager))
		if l.renew(); len(l.storage.Replaced()) != 1 {
			t.Errorf("%s: what was replaced is removed", what)
		}
	}
	stays("elected")
	must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch, p.ISR = 8, []int32{self, 2} }))
	stays("with another one in sync")
	stays("later")
	if r := l.Renewed(); r.N > 1 {
		t.Errorf("one replica counts %d times", r.N)
	}
	must(t, l.storage.Close())
	l = start(t, fs, c)
	stays("after a restart")
}

// A log is not replaced if the replica that it would be copied from is also damaged, or gone.
func TestALogStaysIfTheLeaderHasNoWholeOne(t *testing.T) {
	for name, state := range map[string]metadata.BrokerState{
		"damaged": {Liveness: metadata.Active, Damaged: []metadata.TopicPartition{{Topic: idA}}},
		"fenced":  {Liveness: metadata.Fenced},
	} {
		c := newCluster()
		tp, l := beforeRenewal(t, vfs.Memory(), c)
		c.put(metadata.LivenessKey(2), state.Encode())
		for range 3 {
			must(t, c.apply(t, l.Manager))
			l.renew()
			if n := len(l.Renewals()); n > 0 || l.isLeaving(tp) { // noted before another goroutine replaces it
				t.Fatalf("%s: the log is replaced", name)
			}
			must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch++ })) // in the same one, no log is replaced
		}
		if must(t, c.apply(t, l.Manager)); !l.has(idA, 0) {
			t.Errorf("%s: the log is gone", name)
		}
	}
}

// A log that has no flaw any longer stays in use.
func TestALogWithoutAFlawStays(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	tp := c.shared(idA, 2, 0)
	must(t, c.apply(t, l.Manager))
	l.roles.Lock()
	w, _ := l.wantedOf(l.partition(t, idA, 0).Log().ID())
	gone := l.replaceLog(w, l.partition(t, idA, 0).Log())
	l.roles.Unlock()
	if len(gone) != 0 || !l.has(idA, 0) || l.isLeaving(tp) {
		t.Errorf("replaces %v, has it: %v, leaves: %v", gone, l.has(idA, 0), l.isLeaving(tp))
	}
}

// A log that is being replaced is not replaced again in the next epoch: the new log would be
// forgotten.
func TestALogIsReplacedOnce(t *testing.T) {
	c := newCluster()
	tp, l := beforeRenewal(t, vfs.Memory(), c)
	must(t, c.show(t, l.Manager))
	l.roles.Lock()
	defer l.roles.Unlock()
	damaged := l.partition(t, idA, 0).Log()
	w, _ := l.wantedOf(damaged.ID())
	if !l.replaceable(w, damaged) {
		t.Fatal("it may not be replaced")
	}
	l.queueLeaving(l.replaceLog(w, damaged), nil) // it waits for roles before the new log is made
	if l.replaceable(w, damaged) {
		t.Error("it may be replaced again")
	}
	l.Manager.mu.RLock()
	defer l.Manager.mu.RUnlock()
	if l.missing[tp] == nil {
		t.Error("no new log is to be made")
	}
}

// Deleting a topic also deletes its replaced logs, even if there is no new log yet and the
// tombstone is removed at once.
func TestADeletedTopicTakesReplacedLogsAlong(t *testing.T) {
	for _, restart := range []bool{false, true} {
		fs, c := vfs.Memory(), newCluster()
		_, l := beforeRenewal(t, fs, c)
		must(t, l.storage.Replace(l.partition(t, idA, 0).Log().ID()))
		if len(l.storage.Replaced()) != 1 {
			t.Fatal("nothing is replaced")
		}
		if c.delete("a", idA, 1); restart {
			must(t, l.storage.Close())
			l = start(t, fs, c)
		}
		must(t, c.apply(t, l.Manager))
		must(t, c.apply(t, l.Manager))
		if c.image.Deleting(idA) != nil {
			t.Fatal("the tombstone stays")
		}
		l.renew()
		if left := l.storage.Replaced(); len(left) != 0 {
			t.Errorf("restart %v: %v stays", restart, left)
		}
	}
}

// A repair leaves records out that other replicas may have. So its result counts as damaged, and is
// copied again from one of them, unless this broker leads: then none has them.
func TestARepairedLogIsDamagedUntilItLeads(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	tp := c.shared(idA, 2, 0)
	must(t, c.apply(t, l.Manager))
	must(t, l.storage.Close())
	repaired, err := storage.OpenForRepair(storage.Location{Path: "/d"}, storage.Options{FS: fs})
	must(t, err)
	state, err := storage.ReadState(fs, "/d")
	must(t, err)
	state.Logs[0].Partial = true
	must(t, repaired.Commit(state))
	must(t, repaired.Close())

	for range 2 { // no start takes it for whole
		l = start(t, fs, c)
		must(t, c.apply(t, l.Manager))
		if p := l.partition(t, idA, 0); p.Log().Flaw() == nil || len(l.storage.Flawed()) != 1 {
			t.Error("a repaired log counts as whole")
		}
		must(t, l.storage.Close())
	}
	must(t, c.change(tp, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = self, 1 }))
	for range 2 {
		l = start(t, fs, c)
		must(t, c.apply(t, l.Manager))
		if err := l.partition(t, idA, 0).Log().Flaw(); err != nil {
			t.Errorf("this broker leads: %v", err)
		}
		must(t, l.storage.Close())
		must(t, c.change(tp, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = 2, p.LeaderEpoch+1 }))
	}
}
