package election

import (
	"slices"
	"testing"
)

// Of members that are not compared, the one leads whose records go furthest, if two of them have
// reported or the others had their time.
func TestCompare(t *testing.T) {
	at := func(b, led, epoch int32, end int64) LogState {
		return LogState{Broker: b, LastEpoch: led, RecordEpoch: epoch, End: end}
	}
	unsure := brokers{active: ids(1, 2, 3), uncompared: ids(1, 2)}
	only1 := brokers{active: ids(1), uncompared: ids(1, 2)}
	for _, c := range []struct {
		name     string
		view     brokers
		lost     bool // ISRLost
		waited   bool
		isr, elr []int32
		reports  []LogState
		leader   int32
		nextISR  []int32
	}{
		{"the longest log", unsure, false, false, ids(1, 2), nil, []LogState{at(1, 4, 4, 10), at(2, 4, 4, 12)}, 2, ids(1, 2)},
		{"the later epoch", unsure, false, false, ids(1, 2), nil, []LogState{at(1, 4, 4, 10), at(2, 3, 3, 12)}, 1, ids(1, 2)},
		{"an epoch without records", unsure, false, false, ids(1, 2), nil, []LogState{at(1, 5, 4, 10), at(2, 4, 4, 12)}, 2, ids(1, 2)},
		{"equal logs", unsure, false, false, ids(2, 1), nil, []LogState{at(2, 4, 4, 10), at(1, 4, 4, 10)}, 1, ids(2, 1)},
		{"one report", unsure, false, false, ids(1, 2), nil, []LogState{at(1, 4, 4, 10)}, None, ids(1, 2)},
		{"no other one came", only1, false, true, ids(1, 2), nil, []LogState{at(1, 4, 4, 10)}, 1, ids(1, 2)},
		{"no report yet", unsure, false, false, ids(1, 2), nil, nil, None, ids(1, 2)},
		{"no report", unsure, false, true, ids(1, 2), nil, nil, 1, ids(1, 2)},
		{"no records", unsure, false, false, ids(1, 2), nil, []LogState{at(1, 4, 4, 10), at(2, -1, -1, 12)}, 2, ids(1, 2)},
		{"equal, and one is damaged", unsure, false, false, ids(1, 2), nil, []LogState{{Broker: 1, End: 10, Damaged: true},
			{Broker: 2, End: 10}}, 2, ids(1, 2)},
		{"equal, and one cannot write", brokers{active: ids(1, 2), uncompared: ids(1, 2), full: ids(1)}, false, false, ids(1, 2), nil,
			[]LogState{at(1, 4, 4, 10), at(2, 4, 4, 10)}, 2, ids(1, 2)},
		{"the ELR has more", unsure, false, false, ids(1), ids(2), []LogState{at(1, 4, 4, 10), at(2, 4, 4, 12)}, 2, ids(2)},
		{"only members count", unsure, false, false, ids(1, 2), nil, []LogState{at(1, 4, 4, 10), at(3, 9, 9, 99)}, None, ids(1, 2)},
		{"one is compared", unsure, false, true, ids(1, 3), nil, []LogState{at(1, 4, 4, 10), at(3, 4, 4, 8)}, None, ids(1, 3)},
		{"the ISR may return", only1, false, true, ids(2), ids(1), []LogState{at(1, 4, 4, 10)}, None, ids(2)},
		{"the ISR does not return", only1, true, true, ids(2), ids(1), []LogState{at(1, 4, 4, 10)}, 1, ids(1)},
	} {
		p := record(None, c.isr, c.elr)
		got, changed := Decider{View: c.view, MinISR: 2, ISRLost: c.lost, Knows: informed}.Compare(p, c.reports, c.waited)
		if got.Leader != c.leader || !slices.Equal(got.ISR, c.nextISR) || changed != (c.leader != None) {
			t.Errorf("%s: leader %d isr %v changed %t, want %d, %v", c.name, got.Leader, got.ISR, changed, c.leader, c.nextISR)
		}
		if got.Unclean != 0 {
			t.Errorf("%s: it counts as a loss", c.name)
		}
	}
}

// A member of the ISR that may believe that it leads is not replaced by one of the ELR.
func TestACompareWaitsForTheISR(t *testing.T) {
	d := Decider{View: brokers{active: ids(1, 2), uncompared: ids(1, 2)}, Knows: except(1)}
	reports := []LogState{{Broker: 1, End: 3}, {Broker: 2, End: 4}}
	if got, changed := d.Compare(record(None, ids(1), ids(2)), reports, false); changed {
		t.Errorf("leader %d isr %v", got.Leader, got.ISR)
	}
}

// An operator's election declares no loss as long as a member can lead.
func TestAnUncleanElectionOfAMemberLosesNothing(t *testing.T) {
	d := Decider{View: brokers{active: ids(1, 3), uncompared: ids(1)}, ISRLost: true}
	got, _ := d.Unclean(record(None, ids(1, 2), nil), []LogState{{Broker: 1, End: 3}, {Broker: 3, LastEpoch: 7, End: 9}})
	if got.Leader != 1 || got.Unclean != 0 {
		t.Errorf("leader %d, unclean %d", got.Leader, got.Unclean)
	}
}
