package progress

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var limits = Limits{Lag: 3 * time.Second, Stall: 1500 * time.Millisecond, Gone: time.Second, Repeat: 200 * time.Millisecond}

// dirOf returns the log directory of a broker's replica in these tests.
func dirOf(broker int32) Dir { return Dir{15: byte(broker)} }

// view returns a view with the replicas 1, 2 and 3, all registered, active and placed.
func view(version int64, minISR int, isr, elr []int32) *View {
	v := &View{Version: version, Revision: version, MinISR: minISR, Notes: true}
	for b := int32(1); b <= 3; b++ {
		v.Replicas = append(v.Replicas, Replica{Broker: b, InSync: slices.Contains(isr, b), Eligible: slices.Contains(elr, b),
			BrokerEpoch: 10 + int64(b), Liveness: 20 + int64(b), Active: true, Placement: dirOf(b)})
	}
	return v
}

// led returns a leader, broker 1 in epoch 5, whose log ends at 100 and whose high watermark is
// high.
func led(high int64, v *View) *Leader {
	return Lead(Config{Self: 1, BrokerEpoch: 11, Dir: dirOf(1), Epoch: 5, EpochStart: 100, High: high, End: 100,
		Noted: true, Limits: limits}, v, 0)
}

// serial is Subscription.Serial of the next subscription.
var serial uint64

// subscribe begins a subscription of a broker whose log ends at end.
func subscribe(t *testing.T, l *Leader, broker int32, end int64) Handle {
	t.Helper()
	serial++
	s := Subscription{
		Broker: broker, BrokerEpoch: 10 + int64(broker), Dir: dirOf(broker), Serial: serial, Written: end, Durable: end,
	}
	h, _, ok := l.Subscribe(s, 0)
	if !ok {
		t.Fatalf("broker %d cannot subscribe", broker)
	}
	return h
}

func wantHigh(t *testing.T, l *Leader, want int64) {
	t.Helper()
	if got := l.High(); got != want {
		t.Fatalf("high watermark %d, want %d", got, want)
	}
}

func TestHighIsTheLowestEndOfTheISR(t *testing.T) {
	l := led(50, view(1, 2, []int32{1, 2, 3}, nil))
	h2, h3 := subscribe(t, l, 2, 80), subscribe(t, l, 3, 70)
	wantHigh(t, l, 70)
	if l.Ends(h3, 120, 90)&HighMoved == 0 {
		t.Error("no effect of a durable end")
	}
	wantHigh(t, l, 80) // records that are only written do not count
	l.Ends(h2, 120, 120)
	wantHigh(t, l, 90)
	l.Ends(h3, 120, 120)
	wantHigh(t, l, 100) // the own log's
	l.Own(110)
	wantHigh(t, l, 110)
}

// The durable end of the ISR ignores the profile, and is unknown while the high watermark stands
// still.
func TestDurableIsTheLowestDurableEndOfTheISR(t *testing.T) {
	v := view(1, 2, []int32{1, 2}, nil)
	v.Written = true
	l := led(50, v)
	if d := l.Durable(100); d != -1 {
		t.Errorf("%d without a subscription", d)
	}
	h := subscribe(t, l, 2, 60)
	subscribe(t, l, 3, 10) // is not in sync
	l.Ends(h, 90, 70)
	for own, want := range map[int64]int64{100: 70, 65: 65} {
		if d := l.Durable(own); d != want {
			t.Errorf("%d with an own end of %d, want %d", d, own, want)
		}
	}
	l.SetView(view(2, 2, []int32{1, 2, 3}, nil), 0)
	if d := l.Durable(100); d != 10 {
		t.Errorf("%d with a new member", d)
	}
	l.SetView(view(3, 2, []int32{1, 2}, []int32{3}), 0)
	if d := l.Durable(100); d != -1 {
		t.Errorf("%d while the high watermark stands still", d)
	}
}

func TestAloneTheOwnEndIsTheHighWatermark(t *testing.T) {
	v := view(1, 1, []int32{1}, nil)
	v.Replicas = v.Replicas[:1]
	l := led(100, v)
	if !l.alone || l.Own(105) != HighMoved || l.Own(104) != 0 {
		t.Error("no fast path")
	}
	wantHigh(t, l, 105)
	v.Version, v.Replicas[0].Placement = 2, Dir{}
	l.SetView(v, 0)
	if l.Own(200) != 0 {
		t.Error("the own log counts although its directory is not recorded")
	}
	wantHigh(t, l, 105)
}

func TestEndsDoNotAllocate(t *testing.T) {
	l := led(100, view(1, 2, []int32{1, 2, 3}, nil))
	h2, h3, end := subscribe(t, l, 2, 100), subscribe(t, l, 3, 100), int64(100)
	if n := testing.AllocsPerRun(100, func() {
		end++
		l.Own(end)
		l.Ends(h2, end, end)
		l.Ends(h3, end, end)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	wantHigh(t, l, end)
}

// The lag of a follower is what its log lacks, and since when it has not been caught up. One that
// did not subscribe lacks everything.
func TestLags(t *testing.T) {
	l := led(90, view(1, 2, []int32{1, 2}, nil))
	h := subscribe(t, l, 2, 90)
	l.Sweep(time.Second, 100)
	type lag struct {
		records int64
		behind  time.Duration
	}
	lags := func(now time.Duration) map[int32]lag {
		all := map[int32]lag{}
		l.Lags(now, 100, func(broker int32, records int64, behind time.Duration) { all[broker] = lag{records, behind} })
		return all
	}
	if got, want := lags(3*time.Second), (map[int32]lag{2: {10, 2 * time.Second}, 3: {100, 2 * time.Second}}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.Ends(h, 100, 100)
	l.Sweep(4*time.Second, 100)
	if got := lags(5 * time.Second)[2]; got != (lag{}) {
		t.Errorf("caught up: %v", got)
	}
}

// A leader commits nothing before its log notes the epoch, unless the partition has no other
// replica. No member is to blame for it.
func TestNothingIsCommittedBeforeTheEpochIsNoted(t *testing.T) {
	cfg := Config{Self: 1, BrokerEpoch: 11, Dir: dirOf(1), Epoch: 5, EpochStart: 100, High: 90, End: 100, Limits: limits}
	l := Lead(cfg, view(1, 2, []int32{1, 2}, nil), 0)
	h := subscribe(t, l, 2, 100)
	if effect := l.Own(110) | l.Ends(h, 110, 110); effect&HighMoved != 0 || l.High() != 90 {
		t.Errorf("high watermark %d", l.High())
	}
	if l.Blocked() == "" {
		t.Error("nothing says why")
	}
	if effect := l.Note(); effect&HighMoved == 0 || l.High() != 110 || l.Blocked() != "" {
		t.Errorf("with the note: high watermark %d, %q", l.High(), l.Blocked())
	}
	l = Lead(cfg, view(1, 1, []int32{1}, nil), 0)
	if l.Own(110); l.High() == 110 {
		t.Error("other replicas that are not in sync may be compared later")
	}
	if l.Note(); l.High() != 110 {
		t.Errorf("as the only one in sync, with the note: %d", l.High())
	}
}

// A leader lacks what a member of the ISR or the ELR has committed. That member stays where it is
// until another leader is elected, and counts as one that follows.
func TestALeaderThatLacksCommittedRecords(t *testing.T) {
	for _, c := range []struct {
		name     string
		isr, elr []int32
		follower int32
		lacks    bool
	}{
		{"a member of the ISR", []int32{1, 2}, nil, 2, true},
		{"a member that holds the high watermark", []int32{1, 2}, nil, 2, true},
		{"a member of the ELR", []int32{1}, []int32{2}, 2, true},
		{"neither", []int32{1, 3}, nil, 2, false},
		{"itself", []int32{1, 2}, nil, 1, false},
		{"no replica", []int32{1, 2}, nil, 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := led(100, view(1, 2, c.isr, c.elr))
			if strings.Contains(c.name, "holds") {
				l = led(90, view(1, 1, c.isr, c.elr))
			}
			if l.Lacks(c.follower) != c.lacks {
				t.Fatalf("it lacks: %t", !c.lacks)
			}
			if !c.lacks {
				return
			}
			if l.Followed() != (c.elr == nil) {
				t.Error("the member does not count as one that follows")
			}
			if c.elr != nil {
				subscribe(t, l, 3, 100) // it could join, which would empty the ELR
			}
			for now := time.Duration(0); now < time.Minute; now += 500 * time.Millisecond {
				l.Sweep(now, 200)
				if p, ok := l.Propose(now, true); ok {
					t.Fatalf("after %v it proposes %+v", now, p)
				}
			}
			subscribe(t, l, c.follower, 100) // after an unclean election, in which it has truncated
			if m := l.member(c.follower); m.ahead {
				t.Error("a member that follows is ahead")
			}
		})
	}
}
