//go:build breakrules

package election

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Each of these rules has a case here that goes wrong without it. The walks of
// internal/testing/sim do not detect their absence, which costs availability only.
func TestEveryRuleHasItsTest(t *testing.T) {
	d := Decider{Broken: breakrules.Without(ReturnLeaves), View: brokers{active: ids(2, 3)}}
	if p, _ := d.Return(record(2, ids(1, 2), nil), 1, dir1, Whole); slices.Contains(p.ISR, 1) {
		t.Error("ReturnLeaves: a whole replica stays")
	}
	d.Broken = breakrules.Without(LeaveOneByOne)
	d.MinISR = 2
	if p, _ := d.Leave(record(1, ids(1, 2, 3), nil), Leaving{Fenced: ids(1, 2, 3)}); slices.Contains(p.ELR, 1) {
		t.Error("LeaveOneByOne: the first of three that leave is eligible")
	}
	d.Broken = breakrules.Without(LeadUnable)
	d.View = brokers{active: ids(1, 2), full: ids(2)}
	if !endless(d, moving(1, ids(2), ids(2, 1), nil)) {
		t.Error("LeadUnable: two leaders do not take turns")
	}
	d.View = brokers{active: ids(2, 3)}
	d.Broken = breakrules.Without(AnyLast)
	if p, _ := d.Return(record(2, ids(2), nil), 1, dir1, Missing); p.Last.Broker != 1 {
		t.Errorf("AnyLast: last is %+v", p.Last)
	}
}
