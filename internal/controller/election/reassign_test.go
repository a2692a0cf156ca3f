package election

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
)

// moving returns a partition that is moved from 1, 2, 3 to target in epoch 5.
func moving(leader int32, target, isr, elr []int32) metadata.Partition {
	p := record(leader, isr, elr)
	p.Adding, p.Removing = minus(target, p.Replicas), minus(p.Replicas, target)
	p.Replicas = slices.Concat(target, p.Removing)
	return p
}

// canceled returns a partition from whose replicas 1, 2 and 3 a cancellation leaves 4.
func canceled(leader int32, isr []int32) metadata.Partition {
	p := record(leader, isr, nil)
	p.Replicas, p.Adding, p.Removing = ids(1, 2, 3, 4), ids(4), ids(4)
	return p
}

func TestReassignments(t *testing.T) {
	all := brokers{active: ids(1, 2, 3, 4, 5, 6)}
	without4 := brokers{active: ids(1, 2, 3, 5, 6)}
	type decision func(d Decider, p metadata.Partition) (metadata.Partition, bool)
	to := func(replicas ...int32) decision {
		return func(d Decider, p metadata.Partition) (metadata.Partition, bool) { return d.Reassign(p, replicas) }
	}
	for _, c := range []struct {
		name   string
		decide decision
		view   brokers
		p      metadata.Partition
		ok     bool
		want   metadata.Partition
	}{
		{"all replicas move", to(4, 5, 6), all, record(1, ids(1, 2, 3), nil), true, moving(1, ids(4, 5, 6), ids(1, 2, 3), nil)},
		{"one replica moves", to(4, 2, 1), all, record(1, ids(1, 2), ids(3)), true, moving(1, ids(4, 2, 1), ids(2, 1), ids(3))},
		{"another order is complete at once", to(3, 2, 1), all, record(1, ids(1, 2, 3), nil), true,
			metadata.Partition{Leader: 1, LeaderEpoch: 5, Replicas: ids(3, 2, 1), ISR: ids(3, 2, 1)}},
		{"another order needs no replica in sync", to(3, 2, 1), all, record(1, ids(1), ids(2)), true,
			metadata.Partition{Leader: 1, LeaderEpoch: 5, Replicas: ids(3, 2, 1), ISR: ids(1), ELR: ids(2)}},
		{"a removal is completed later", to(1, 2), all, record(1, ids(1, 2, 3), nil), true, moving(1, ids(1, 2), ids(1, 2, 3), nil)},
		{"a removal waits for the rest", to(1, 2), all, record(1, ids(1, 3), nil), true, moving(1, ids(1, 2), ids(1, 3), nil)},
		{"another target", to(1, 2, 5), all, moving(1, ids(1, 2, 4), ids(1, 2, 3), nil), true,
			metadata.Partition{Leader: 1, LeaderEpoch: 6, Replicas: ids(1, 2, 5, 3), ISR: ids(1, 2, 3), Adding: ids(5), Removing: ids(3)}},
		{"another target would leave one", to(1, 2, 5), all, moving(1, ids(1, 2, 4), ids(1, 4), nil), false, metadata.Partition{}},

		{"complete, in a new epoch", Decider.Complete, all, moving(4, ids(4, 5), ids(4, 5, 1), nil), true,
			metadata.Partition{Leader: 4, LeaderEpoch: 6, Replicas: ids(4, 5), ISR: ids(4, 5)}},
		{"the leader is replaced first, and stays in sync", Decider.Complete, all, moving(1, ids(4, 5), ids(4, 5, 1), nil), true,
			metadata.Partition{Leader: 4, LeaderEpoch: 6, Replicas: ids(4, 5, 1, 2, 3), ISR: ids(4, 5, 1), Adding: ids(4, 5),
				Removing: ids(1, 2, 3)}},
		{"complete, and the leader stays", Decider.Complete, all, moving(1, ids(4, 1), ids(4, 1, 2), ids(3)), true,
			metadata.Partition{Leader: 1, LeaderEpoch: 6, Replicas: ids(4, 1), ISR: ids(4, 1)}},
		{"replicas are only added", Decider.Complete, all, moving(1, ids(1, 2, 3, 4), ids(1, 2, 3, 4), nil), true,
			metadata.Partition{Leader: 1, LeaderEpoch: 5, Replicas: ids(1, 2, 3, 4), ISR: ids(1, 2, 3, 4)}},
		{"one is not in sync yet", Decider.Complete, all, moving(1, ids(4, 5), ids(4, 1), nil), false, metadata.Partition{}},
		{"none of the new ones can lead", Decider.Complete, without4, moving(1, ids(4), ids(4, 1), nil), false, metadata.Partition{}},
		{"nothing is in progress", Decider.Complete, all, record(1, ids(1, 2, 3), nil), false, metadata.Partition{}},

		{"cancel", Decider.Cancel, all, moving(1, ids(4, 5), ids(1, 2), nil), true,
			metadata.Partition{Leader: 1, LeaderEpoch: 6, Replicas: ids(1, 2, 3), ISR: ids(1, 2)}},
		{"cancel leaves the leader for now", Decider.Cancel, all, moving(4, ids(4, 5), ids(4, 2, 3), nil), true,
			metadata.Partition{Leader: 4, LeaderEpoch: 6, Replicas: ids(1, 2, 3, 4), ISR: ids(2, 3, 4), Adding: ids(4), Removing: ids(4)}},
		{"then the leadership moves back", Decider.Complete, all, canceled(4, ids(2, 3, 4)), true,
			metadata.Partition{Leader: 2, LeaderEpoch: 6, Replicas: ids(1, 2, 3, 4), ISR: ids(2, 3, 4), Adding: ids(4), Removing: ids(4)}},
		{"then the former leader leaves", Decider.Complete, all, canceled(2, ids(2, 3, 4)), true,
			metadata.Partition{Leader: 2, LeaderEpoch: 6, Replicas: ids(1, 2, 3), ISR: ids(2, 3)}},
		{"it stays while too few would remain", Decider.Complete, all, canceled(2, ids(2, 4)), false, metadata.Partition{}},
		{"cancel would leave one", Decider.Cancel, all, moving(1, ids(4, 5), ids(4, 1), nil), false, metadata.Partition{}},
		{"cancel would leave none", Decider.Cancel, all, moving(4, ids(4, 5), ids(4), nil), false, metadata.Partition{}},
		{"cancel drops nothing of a small ISR", Decider.Cancel, all, moving(1, ids(4, 5), ids(1), ids(2)), true,
			metadata.Partition{Leader: 1, LeaderEpoch: 6, Replicas: ids(1, 2, 3), ISR: ids(1), ELR: ids(2)}},
		{"cancel without a leader", Decider.Cancel, all, moving(None, ids(4, 5), nil, ids(1)), false, metadata.Partition{}},
		{"a removal waits for a leader", to(1, 2), all, record(None, ids(1, 2), nil), true, moving(None, ids(1, 2), ids(1, 2), nil)},
		{"no end without a leader", Decider.Complete, all, moving(None, ids(1, 2), ids(1, 2), nil), false, metadata.Partition{}},
		{"an addition without a leader", to(4, 1, 2, 3), all, record(None, ids(1, 2), nil), true,
			moving(None, ids(4, 1, 2, 3), ids(1, 2), nil)},
	} {
		got, ok := c.decide(Decider{View: c.view, MinISR: 2, Knows: informed}, c.p)
		if ok != c.ok {
			t.Errorf("%s: %v, %+v", c.name, ok, got)
			continue
		}
		if !ok {
			continue
		}
		slices.Sort(c.want.ISR)
		slices.Sort(got.ISR)
		c.want.PartitionEpoch = c.p.PartitionEpoch + 1
		if !bytes.Equal(got.Encode(), c.want.Encode()) || got.Check() != "" {
			t.Errorf("%s: %+v %s, want %+v", c.name, got, got.Check(), c.want)
		}
	}
}

// A member of the ISR that may believe that it leads stays in it, while its broker runs.
func TestAReplicaThatMayBelieveThatItLeadsStaysInSync(t *testing.T) {
	all, without1 := brokers{active: ids(1, 2, 3, 4, 5)}, brokers{active: ids(2, 3, 4, 5)}
	moved := moving(4, ids(4, 5), ids(4, 5, 1), nil) // from 1, which led
	for _, c := range []struct {
		name  string
		view  brokers
		knows func(int32, int64) bool
		ends  bool
	}{
		{"it has not applied the election", all, except(1), false},
		{"nothing is known of it", all, nil, false},
		{"it has", all, informed, true},
		{"its session has ended", without1, nil, true},
	} {
		if _, ended := (Decider{View: c.view, MinISR: 1, Knows: c.knows}).Complete(moved); ended != c.ends {
			t.Errorf("%s: the reassignment is complete: %t", c.name, ended)
		}
		drained := c.view
		drained.draining = ids(1)
		if c.ends {
			drained = c.view
		}
		_, left := Decider{View: drained, MinISR: 1, Knows: c.knows}.Leave(record(2, ids(1, 2, 3), nil), Leaving{Drained: ids(1)})
		if left != c.ends {
			t.Errorf("%s: the drained replica has left: %t", c.name, left)
		}
	}
}

// endless reports whether a record changes for ever although no broker's state does. The controller
// decides again as soon as it sees its own change, so such decisions would fill its disk.
func endless(d Decider, p metadata.Partition) bool {
	for range 10 {
		elected, first := d.Elect(p)
		completed, second := d.Complete(elected)
		if !first && !second {
			return false
		}
		p = completed
	}
	return true
}

// A move to brokers that cannot write waits, while the present leader can.
func TestALeaderThatLeavesIsReplacedByOneThatCanWrite(t *testing.T) {
	moved, gone := moving(1, ids(4, 5), ids(4, 5, 1), nil), canceled(4, ids(4, 1, 2))
	for _, c := range []struct {
		p      metadata.Partition
		full   []int32
		leader int32
	}{
		{moved, ids(4, 5), 1}, {moved, ids(4), 5}, {moved, ids(1, 4, 5), 4},
		{gone, ids(1, 2), 4}, {gone, ids(1), 2}, {gone, ids(1, 2, 4), 1},
	} {
		d := Decider{View: brokers{active: ids(1, 2, 4, 5), full: c.full}, MinISR: 1}
		if next, _ := d.Complete(c.p); next.Leader != c.leader || endless(d, c.p) {
			t.Errorf("%v, full %v: broker %d leads, want %d; endless: %t", c.p.Replicas, c.full, next.Leader, c.leader, endless(d, c.p))
		}
	}
}

// Whatever is asked for, the record stays consistent, no leader epoch has two leaders, and a member
// of the ISR or the ELR is only given up if min.insync.replicas members of the ISR remain.
func TestRecordsStayConsistentUnderReassignments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := func(name string, least int) []int32 {
			return rapid.SliceOfNDistinct(rapid.Int32Range(1, 6), least, 4, rapid.ID[int32]).Draw(t, name)
		}
		p := metadata.Partition{Leader: None, Replicas: set("replicas", 1)}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			d := Decider{View: brokers{active: set("active", 0), offline: set("offline", 0), full: set("full", 0)},
				MinISR: rapid.IntRange(1, 3).Draw(t, "min"), Knows: func(int32, int64) bool { return rapid.Bool().Draw(t, "knows") }}
			was, ok := p, false
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				p, ok = d.Reassign(p, set("target", 1))
			case 1:
				p, ok = d.Cancel(p)
			case 2:
				p, _ = d.Complete(p)
			case 3: // the leader changes the ISR
				if in := common(p.Replicas, set("isr", 1)); len(in) > 0 && (p.Leader == None || slices.Contains(in, p.Leader)) {
					p.ISR, p.ELR = in, minus(p.ELR, in)
				}
			default:
				p, _ = d.Elect(p)
			}
			if why := p.Check(); why != "" {
				t.Fatalf("%+v after %+v: %s", p, was, why)
			}
			if p.LeaderEpoch == was.LeaderEpoch && p.Leader != was.Leader || p.LeaderEpoch < was.LeaderEpoch {
				t.Fatalf("epoch of %+v after %+v", p, was)
			}
			removed := minus(was.Replicas, p.Replicas)
			if p.Leader != None && len(removed) > 0 && p.LeaderEpoch == was.LeaderEpoch {
				t.Fatalf("%v was removed in the same epoch", removed)
			}
			gone := len(common(removed, slices.Concat(was.ISR, was.ELR))) > 0
			if ok && gone && len(p.ISR) < d.needed(&p) && p.Reassigning() {
				t.Fatalf("%+v after %+v: too few remain", p, was)
			}
			if endless(d, p) {
				t.Fatalf("decisions about %+v with %+v have no end", p, d.View)
			}
		}
	})
}
