package election

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
)

// brokers is a View: the active brokers, those that drain, those whose replica is offline, those
// whose log directory takes no records, and those whose replica is not compared.
type brokers struct{ active, draining, offline, full, uncompared []int32 }

func (b brokers) Active(id int32) bool  { return slices.Contains(b.active, id) }
func (b brokers) Running(id int32) bool { return b.Active(id) || slices.Contains(b.draining, id) }
func (b brokers) Online(id int32) bool  { return !slices.Contains(b.offline, id) }
func (b brokers) Writes(id int32) bool  { return b.Online(id) && !slices.Contains(b.full, id) }

func (b brokers) Compared(id int32) bool { return !slices.Contains(b.uncompared, id) }

// informed is Decider.Knows if every broker has applied everything, except(b) if b has not.
func informed(int32, int64) bool { return true }

func except(b int32) func(int32, int64) bool { return func(x int32, _ int64) bool { return x != b } }

var dir1 = [16]byte{15: 1}

// record returns a partition with the replicas 1, 2 and 3 in epoch 5.
func record(leader int32, isr, elr []int32) metadata.Partition {
	return metadata.Partition{Leader: leader, LeaderEpoch: 5, Replicas: []int32{1, 2, 3}, ISR: isr, ELR: elr}
}

func ids(set ...int32) []int32 { return set }

func TestDecisions(t *testing.T) {
	all := brokers{active: ids(1, 2, 3)}
	without1 := brokers{active: ids(2, 3)}
	draining1 := brokers{active: ids(2, 3), draining: ids(1)}
	offline2 := brokers{active: ids(1, 2, 3), offline: ids(2)}
	unsure1, unsure23 := brokers{active: ids(1, 2, 3), uncompared: ids(1)}, brokers{active: ids(2, 3), uncompared: ids(2, 3)}
	full1, full12 := brokers{active: ids(1, 2, 3), full: ids(1)}, brokers{active: ids(1, 2, 3), full: ids(1, 2)}
	type decision func(d Decider, p metadata.Partition) (metadata.Partition, bool)
	elect := Decider.Elect
	fence1 := func(d Decider, p metadata.Partition) (metadata.Partition, bool) {
		return d.Leave(p, Leaving{Fenced: ids(1)})
	}
	back := func(is Condition) decision {
		return func(d Decider, p metadata.Partition) (metadata.Partition, bool) { return d.Return(p, 1, dir1, is) }
	}
	resign := func(epoch int32) decision {
		return func(d Decider, p metadata.Partition) (metadata.Partition, bool) { return d.Resign(p, 1, epoch) }
	}
	drained := func(d Decider, p metadata.Partition) (metadata.Partition, bool) {
		return d.Leave(p, Leaving{Drained: ids(1)})
	}
	for _, c := range []struct {
		name     string
		decide   decision
		view     brokers
		lost     bool // ISRLost
		p        metadata.Partition
		leader   int32
		epoch    int32
		isr, elr []int32
	}{
		{"a leader that can lead stays", elect, all, false, record(2, ids(1, 2), nil), 2, 5, ids(1, 2), nil},
		{"the first replica of the ISR leads", elect, all, false, record(None, ids(3, 2), nil), 2, 6, ids(3, 2), nil},
		{"an offline replica does not lead", elect, offline2, false, record(None, ids(2, 3), nil), 3, 6, ids(2, 3), nil},
		{"no leader if the ISR is down", elect, without1, false, record(1, ids(1), nil), None, 6, ids(1), nil},
		{"the ELR waits for the ISR", elect, without1, false, record(1, ids(1), ids(3)), None, 6, ids(1), ids(3)},
		{"the ELR leads, and the others stay eligible", elect, without1, true, record(1, ids(1), ids(3)), 3, 6, ids(3), ids(1)},
		{"the ELR leads at once beside an empty ISR", elect, all, false, record(None, nil, ids(1, 2)), 1, 6, ids(1), ids(2)},
		{"no leader stays no leader", elect, brokers{}, true, record(None, ids(1), ids(2)), None, 5, ids(1), ids(2)},
		{"a draining leader stays alone", elect, draining1, true, record(1, ids(1), ids(2)), 1, 5, ids(1), ids(2)},
		{"a draining leader is replaced", elect, draining1, false, record(1, ids(1, 3), nil), 3, 6, ids(1, 3), nil},

		{"a fenced broker leaves", fence1, without1, false, record(1, ids(1, 2, 3), nil), 2, 6, ids(2, 3), nil},
		{"a fenced broker of a small ISR is eligible", fence1, without1, false, record(1, ids(1, 2), nil), 2, 6, ids(2), ids(1)},
		{"the last one of the ISR is eligible", fence1, brokers{}, false, record(1, ids(1), ids(2)), None, 6, nil, ids(1, 2)},
		{"the ELR leads when the last one is fenced", fence1, without1, false, record(1, ids(1), ids(2)), 2, 6, ids(2), ids(1)},

		{"a whole follower stays", back(Whole), without1, false, record(2, ids(1, 2), nil), 2, 5, ids(1, 2), nil},
		{"a whole leader loses its epoch", back(Whole), without1, false, record(1, ids(1, 2), nil), 2, 6, ids(1, 2), nil},
		{"a lone leader loses its epoch", back(Whole), without1, false, record(1, ids(1), nil), None, 6, ids(1), nil},
		{"a wiped replica leaves", back(Missing), without1, false, record(2, ids(1, 2), nil), 2, 5, ids(2), nil},
		{"a lossy replica leaves the ELR", back(Lossy), without1, false, record(2, ids(2), ids(1)), 2, 5, ids(2), nil},
		{"a wiped leader", back(Missing), without1, false, record(1, ids(1, 3), nil), 3, 6, ids(3), nil},

		{"a resignation of an earlier epoch", resign(4), all, false, record(1, ids(1, 2), nil), 1, 5, ids(1, 2), nil},
		{"another one leads after a resignation", resign(5), all, false, record(1, ids(1, 2), nil), 2, 6, ids(1, 2), nil},
		{"the same one leads the next epoch", resign(5), all, false, record(1, ids(1), ids(2)), 1, 6, ids(1), ids(2)},

		{"draining moves the leadership", elect, draining1, false, record(1, ids(1, 2), nil), 2, 6, ids(1, 2), nil},
		{"draining does not stop a partition", elect, draining1, false, record(1, ids(1), nil), 1, 5, ids(1), nil},
		{"a drained broker leaves", drained, without1, false, record(2, ids(1, 2, 3), nil), 2, 5, ids(2, 3), nil},
		{"a drained broker of a small ISR is eligible", drained, without1, false, record(2, ids(1, 2), nil), 2, 5, ids(2), ids(1)},
		{"a drained broker that is alone stays", drained, draining1, false, record(1, ids(1), nil), 1, 5, ids(1), nil},

		{"the preferred replica leads", Decider.Prefer, all, false, record(2, ids(1, 2), nil), 1, 6, ids(1, 2), nil},
		{"a leader that cannot write", elect, full1, false, record(1, ids(1, 2, 3), nil), 2, 6, ids(1, 2, 3), nil},
		{"no replica in sync can write", elect, full1, false, record(1, ids(1), ids(2)), 1, 5, ids(1), ids(2)},
		{"no leader, and only one can write", elect, full12, false, record(None, ids(1, 2, 3), nil), 3, 6, ids(1, 2, 3), nil},
		{"no leader, and none can write", elect, full12, false, record(None, ids(1, 2), nil), 1, 6, ids(1, 2), nil},
		{"none can write", elect, full12, false, record(2, ids(1, 2), nil), 2, 5, ids(1, 2), nil},
		{"in sync and full before eligible", elect, full1, true, record(None, ids(1), ids(2)), 1, 6, ids(1), ids(2)},
		{"one that can write takes over from one that drains", elect, brokers{active: ids(2, 3), full: ids(2)}, false,
			record(1, ids(1, 2, 3), nil), 3, 6, ids(1, 2, 3), nil},
		{"one that drains goes even if no other can write", elect, brokers{active: ids(2), full: ids(2)}, false, record(1, ids(1, 2), nil),
			2, 6, ids(1, 2), nil},
		{"a leader resigns, and no other can write", resign(5), brokers{active: ids(1, 2), full: ids(2)}, false, record(1, ids(1, 2), nil),
			1, 6, ids(1, 2), nil},
		{"a leader resigns, and it cannot write either", resign(5), full12, false, record(1, ids(1, 2), nil), 2, 6, ids(1, 2), nil},
		{"the preferred replica cannot write", Decider.Prefer, full1, false, record(2, ids(1, 2), nil), 2, 5, ids(1, 2), nil},
		{"one that is compared leads before others", elect, unsure1, false, record(None, ids(1, 2), nil), 2, 6, ids(1, 2), nil},
		{"none in sync is compared", elect, unsure23, false, record(None, ids(2, 3), nil), None, 5, ids(2, 3), nil},
		{"what leads needs no comparison", elect, unsure23, false, record(3, ids(2, 3), nil), 3, 5, ids(2, 3), nil},
		{"nor does what is alone", elect, unsure23, false, record(None, ids(2), nil), 2, 6, ids(2), nil},
		{"the ELR is not compared either", elect, unsure23, true, record(None, ids(2), ids(3)), None, 5, ids(2), ids(3)},
		{"what is not compared waits for what leaves", fence1, unsure23, false, record(1, ids(1, 2), nil), None, 6, ids(2), ids(1)},
		{"the preferred replica is not compared", Decider.Prefer, unsure1, false, record(2, ids(1, 2), nil), 2, 5, ids(1, 2), nil},
		{"the preferred replica is not in sync", Decider.Prefer, all, false, record(2, ids(2), nil), 2, 5, ids(2), nil},
	} {
		got, changed := c.decide(Decider{View: c.view, MinISR: 2, ISRLost: c.lost}, c.p)
		if got.Leader != c.leader || got.LeaderEpoch != c.epoch || !slices.Equal(got.ISR, c.isr) || !slices.Equal(got.ELR, c.elr) {
			t.Errorf("%s: leader %d epoch %d isr %v elr %v, want %d %d %v %v", c.name, got.Leader, got.LeaderEpoch, got.ISR, got.ELR,
				c.leader, c.epoch, c.isr, c.elr)
		}
		if same := got.PartitionEpoch == c.p.PartitionEpoch; same == changed {
			t.Errorf("%s: changed %v, partition epoch %d", c.name, changed, got.PartitionEpoch)
		}
	}
}

// What leaves in one decision is computed before anything is decided: all that is whole is eligible
// if too few remain.
func TestReplicasThatLeaveTogether(t *testing.T) {
	damaged := func(b int32) []Replica { return []Replica{{b, [16]byte{15: byte(b)}}} }
	without1, only3 := brokers{active: ids(2, 3)}, brokers{active: ids(3)}
	for _, c := range []struct {
		name     string
		leaving  Leaving
		view     brokers
		p        metadata.Partition
		leader   int32
		epoch    int32
		isr, elr []int32
	}{
		{"all are fenced at once", Leaving{Fenced: ids(1, 2, 3)}, brokers{}, record(1, ids(1, 2, 3), nil), None, 6, nil,
			ids(1, 2, 3)},
		{"two are fenced at once", Leaving{Fenced: ids(1, 2)}, only3, record(1, ids(1, 2, 3), nil), 3, 6, ids(3), ids(1, 2)},
		{"one is fenced, another one drained", Leaving{Fenced: ids(1), Drained: ids(2)}, only3,
			record(1, ids(1, 2, 3), nil), 3, 6, ids(3), ids(1, 2)},
		{"one is fenced, another one damaged", Leaving{Fenced: ids(1), Damaged: damaged(2)}, only3,
			record(1, ids(1, 2, 3), nil), 3, 6, ids(3), ids(1)},
		{"one is damaged, and enough are left", Leaving{Damaged: damaged(1)}, without1, record(1, ids(1, 2, 3), nil), 2, 6,
			ids(2, 3), nil},
		{"all that is left is drained", Leaving{Fenced: ids(1, 2), Drained: ids(3)}, brokers{draining: ids(3)},
			record(1, ids(1, 2, 3), nil), None, 6, ids(3), ids(1, 2)},
		{"all are drained", Leaving{Drained: ids(2, 3)}, brokers{draining: ids(1, 2, 3)}, record(1, ids(1, 2, 3), nil), 1, 5,
			ids(1), ids(2, 3)},
		{"an eligible one is damaged", Leaving{Damaged: damaged(1)}, without1, record(2, ids(2), ids(1)), 2, 5, ids(2), nil},
	} {
		got, _ := Decider{View: c.view, MinISR: 2, Knows: informed}.Leave(c.p, c.leaving)
		if got.Leader != c.leader || got.LeaderEpoch != c.epoch || !slices.Equal(got.ISR, c.isr) || !slices.Equal(got.ELR, c.elr) {
			t.Errorf("%s: leader %d epoch %d isr %v elr %v, want %d %d %v %v", c.name, got.Leader, got.LeaderEpoch, got.ISR, got.ELR,
				c.leader, c.epoch, c.isr, c.elr)
		}
	}
}

// Only the replica with which the last records left comes back on its own, and only with them.
func TestRestoreTakesOnlyTheLastReplicaWithItsRecords(t *testing.T) {
	down, all := Decider{View: brokers{}}, Decider{View: brokers{active: ids(1, 2, 3)}}
	gone := func(is Condition) metadata.Partition {
		p, _ := down.Return(record(1, ids(1), nil), 1, dir1, is)
		return p
	}
	if p := gone(Missing); p.Last != (metadata.LastReplica{Broker: 1, Dir: dir1}) || p.Leader != None {
		t.Errorf("last %+v, leader %d", p.Last, p.Leader)
	}
	p, ok := all.Restore(gone(Missing), 1, dir1)
	if !ok || p.Leader != 1 || !slices.Equal(p.ISR, ids(1)) || !p.Last.IsZero() || p.Unclean != 0 {
		t.Errorf("restored: %v %+v", ok, p)
	}
	if _, ok := all.Restore(gone(Missing), 1, [16]byte{1}); ok {
		t.Error("restored from another directory")
	}
	if _, ok := all.Restore(gone(Missing), 2, dir1); ok {
		t.Error("restored from another broker")
	}
	if _, ok := all.Restore(gone(Lossy), 1, dir1); ok {
		t.Error("restored although records may be missing")
	}
	if p, _ := down.Return(gone(Missing), 1, dir1, Lossy); !p.Last.Lossy {
		t.Error("a loss between leaving and returning is not noticed")
	}
	if p, changed := down.Return(gone(Missing), 2, [16]byte{2}, Missing); changed || p.Last.Broker != 1 {
		t.Errorf("a replica that left earlier became the last: %+v", p.Last)
	}
}

func TestUncleanElectsTheLongestLog(t *testing.T) {
	d := Decider{View: brokers{active: ids(2, 3)}}
	reports := []LogState{{Broker: 1, LastEpoch: 9, End: 900}, {Broker: 2, LastEpoch: 4, End: 70}, {Broker: 3, LastEpoch: 4, End: 80}}
	p, ok := d.Unclean(record(1, ids(1), nil), reports)
	epoch := 9 + metadata.Gap(d.Generation)
	if !ok || p.Leader != 3 || p.LeaderEpoch != epoch || p.Unclean != epoch || !slices.Equal(p.ISR, ids(3)) || p.ELR != nil {
		t.Errorf("%v %+v; the epoch must be above all that any replica can have", ok, p)
	}
	for end, leader := range map[int64]int32{80: 3, 79: 2} {
		logs := []LogState{{Broker: 2, LastEpoch: 4, End: 80, Damaged: true}, {Broker: 3, LastEpoch: 4, End: end}}
		if p, _ := d.Unclean(record(1, ids(1), nil), logs); p.Leader != leader {
			t.Errorf("elected %d, with a damaged log that ends at 80 and another one at %d", p.Leader, end)
		}
	}
	if p, _ := d.Unclean(record(1, ids(1), nil), []LogState{{Broker: 2, LastEpoch: 5, End: 1}}); p.LeaderEpoch != 7 {
		t.Errorf("epoch %d, two elections after 5, which the metadata gave", p.LeaderEpoch)
	}
	if p, _ := d.Unclean(record(1, ids(1, 2), nil), reports); p.Leader != 2 || p.Unclean != 0 {
		t.Errorf("unclean although a member of the ISR can lead: %+v", p)
	}
	if p, _ := d.Unclean(record(None, ids(1), nil), reports[:1]); p.Leader != None || p.Unclean != 0 {
		t.Errorf("elected a broker that is not active: %+v", p)
	}
}

func TestReassignmentDoesNotRaiseTheMinimum(t *testing.T) {
	p := record(1, ids(1, 2, 3), nil)
	p.Adding = ids(3)
	if got, _ := (Decider{View: brokers{active: ids(2, 3)}, MinISR: 3}).Leave(p, Leaving{Fenced: ids(1)}); len(got.ELR) > 0 {
		t.Errorf("elr %v of two replicas that stay", got.ELR)
	}
}

// Whatever happens, the record stays valid, epochs do not fall, and the given record is not
// modified.
func TestDecisionsKeepRecordsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := record(1, ids(1, 2, 3), nil)
		subset := rapid.SliceOfNDistinct(rapid.Int32Range(1, 3), 0, 3, rapid.ID[int32])
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			view := brokers{active: subset.Draw(t, "active"), draining: subset.Draw(t, "draining"), offline: subset.Draw(t, "offline"),
				full: subset.Draw(t, "full")}
			var leaving Leaving
			for _, b := range p.Replicas {
				switch rapid.IntRange(0, 3).Draw(t, "leaves") {
				case 0:
					leaving.Fenced, view.active = append(leaving.Fenced, b), without(view.active, b)
				case 1:
					leaving.Damaged, view.offline = append(leaving.Damaged, Replica{b, [16]byte{byte(b)}}), append(view.offline, b)
				case 2:
					leaving.Drained, view.active = append(leaving.Drained, b), without(view.active, b)
				}
			}
			d := Decider{View: view, MinISR: rapid.IntRange(0, 4).Draw(t, "min"), ISRLost: rapid.Bool().Draw(t, "lost")}
			b := rapid.Int32Range(1, 3).Draw(t, "broker")
			before := p
			isr, elr := slices.Clone(p.ISR), slices.Clone(p.ELR)
			next, changed := decideOne(d, p, b, leaving, rapid.IntRange(0, 8).Draw(t, "event"))
			if why := next.Check(); why != "" {
				t.Fatalf("%+v: %s", next, why)
			}
			if next.LeaderEpoch < p.LeaderEpoch || next.Leader != p.Leader && next.LeaderEpoch == p.LeaderEpoch {
				t.Fatalf("leader %d epoch %d after leader %d epoch %d", next.Leader, next.LeaderEpoch, p.Leader, p.LeaderEpoch)
			}
			if !changed && next.PartitionEpoch != p.PartitionEpoch || !slices.Equal(before.ISR, isr) || !slices.Equal(before.ELR, elr) {
				t.Fatal("the given record was modified")
			}
			if _, again := d.Elect(next); again && changed && next.Leader != None && d.able(next.Leader) {
				t.Fatal("an election is not final")
			}
			p = next
		}
	})
}

func decideOne(d Decider, p metadata.Partition, b int32, leaving Leaving, event int) (metadata.Partition, bool) {
	dir := [16]byte{byte(b)}
	switch event {
	case 0:
		return d.Leave(p, leaving)
	case 1:
		return d.Return(p, b, dir, Whole)
	case 2:
		return d.Return(p, b, dir, Missing)
	case 3:
		return d.Return(p, b, dir, Lossy)
	case 4:
		return d.Elect(p)
	case 5:
		return d.Resign(p, b, p.LeaderEpoch)
	case 6:
		return d.Restore(p, b, dir)
	case 7:
		return d.Unclean(p, []LogState{{Broker: b, LastEpoch: p.LeaderEpoch, End: 1}})
	default:
		return d.Prefer(p)
	}
}
