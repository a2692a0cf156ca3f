//go:build breakrules

package progress

import (
	"testing"

	"github.com/chronik-io/chronik/internal/breakrules"
)

// Each of these rules has a case here that goes wrong without it. The walks of
// internal/testing/sim do not detect their absence.
func TestEveryRuleHasItsTest(t *testing.T) {
	broken := func(r Rule) Config {
		return Config{Broken: breakrules.Without(r), Self: 1, BrokerEpoch: 11, Dir: dirOf(1), Epoch: 5, EpochStart: 100, High: 100,
			Noted: true, End: 100, Limits: limits}
	}
	short := Subscription{Broker: 2, BrokerEpoch: 12, Dir: dirOf(2), Serial: 1, Written: 99, Durable: 99}

	l := Lead(broken(KeepDamaged), view(1, 2, []int32{1, 2, 3}, nil), 0)
	if _, effect, _ := l.Subscribe(short, 0); effect&MemberShort != 0 {
		t.Error("KeepDamaged: a damaged member is noticed")
	}
	if _, ok := l.Propose(0, true); ok {
		t.Error("KeepDamaged: a damaged member leaves")
	}

	l = Lead(broken(AcceptOldRequests), view(1, 2, []int32{1, 2, 3}, nil), 0)
	late := short
	short.Serial = 2
	for _, s := range []Subscription{short, late} {
		if _, _, ok := l.Subscribe(s, 0); !ok {
			t.Error("AcceptOldRequests: a request that was overtaken is refused")
		}
	}

	l = Lead(broken(DurableWritten), view(1, 2, []int32{1, 2}, nil), 0)
	if l.Ends(subscribe(t, l, 2, 50), 90, 60); l.Durable(100) == 60 {
		t.Error("DurableWritten: written records are not durable")
	}

	l = Lead(broken(JoinAboveStart), view(1, 2, []int32{1, 2}, nil), 0)
	above := Subscription{Broker: 3, BrokerEpoch: 13, Dir: dirOf(3), Serial: 1, Written: 100, Durable: 100, LogStart: 50}
	if _, effect, _ := l.Subscribe(above, 0); effect&ProposalDue == 0 {
		t.Error("JoinAboveStart: a follower that begins above the leader does not join")
	}
	from := Position{Epoch: 5, LastEpoch: -1, Start: 50, End: 50}
	if v, _, _ := Answer(Offsets{Broken: breakrules.Without(JoinAboveStart), Epoch: 5, LogEnd: 100}, from, nil); v != Accepted {
		t.Error("JoinAboveStart: a follower that begins above the leader is reset")
	}

	l = Lead(broken(EmptyProposed), view(1, 2, []int32{1, 2}, nil), 0)
	subscribe(t, l, 3, 100)
	asks := Subscription{Broker: 3, BrokerEpoch: 13, Dir: dirOf(3), Serial: 1 << 40}
	if l.Asks(asks, 0); l.due()&ProposalDue == 0 {
		t.Error("EmptyProposed: the ends of a subscription that its broker has left do not count")
	}
	if _, ok := l.Propose(0, true); !ok {
		t.Fatal("no proposal")
	}
	if member, _ := l.Asks(asks, 0); member {
		t.Error("EmptyProposed: a broker that is proposed is a member")
	}

	older := Position{Epoch: 5, LastEpoch: 3, End: 50}
	begin := func(epoch int32) (int32, int64) { return epoch, 50 }
	if v, _, _ := Answer(Offsets{Broken: breakrules.Without(KeepDeleted), Epoch: 5, Start: 50, LogEnd: 100}, older, begin); v != Accepted {
		t.Error("KeepDeleted: a follower that has only what the leader has deleted is reset")
	}

	if l = Lead(broken(LeadShort), view(1, 2, []int32{1, 2}, nil), 0); l.Lacks(2) {
		t.Error("LeadShort: a leader gives way to a member that has what it lacks")
	}

	unnoted := broken(CommitUnnoted)
	unnoted.Noted, unnoted.High = false, 90
	l = Lead(unnoted, view(1, 2, []int32{1, 2}, nil), 0)
	if subscribe(t, l, 2, 100); l.High() == 90 {
		t.Error("CommitUnnoted: nothing is committed before the log notes the epoch")
	}

	f := Follower{Broken: breakrules.Without(CutBelowHigh), High: 10, Epoch: 4}
	if _, ok := f.Truncate(9, 0); !ok {
		t.Error("CutBelowHigh: a truncation below the high watermark is refused")
	}
}
