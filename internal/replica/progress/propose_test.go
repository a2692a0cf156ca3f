package progress

import (
	"slices"
	"testing"
	"time"
)

// proposed returns the leader's next proposal and checks its ISR, ELR and reason.
func proposed(t *testing.T, l *Leader, now time.Duration, isr, elr []int32, why Reason) Proposal {
	t.Helper()
	p, ok := l.Propose(now, true)
	if !ok || !slices.Equal(p.ISR, isr) || !slices.Equal(p.ELR, elr) || p.Reason != why {
		t.Fatalf("proposal %v %+v, want isr %v elr %v: %s", ok, p, isr, elr, why)
	}
	return p
}

func nothingProposed(t *testing.T, l *Leader, now time.Duration) {
	t.Helper()
	if p, ok := l.Propose(now, true); ok {
		t.Fatalf("unexpected proposal: %+v", p)
	}
}

func TestAProposalIsPendingUntilTheViewShowsItsOutcome(t *testing.T) {
	l := led(100, view(1, 2, []int32{1, 2}, nil))
	h2, h3 := subscribe(t, l, 2, 100), subscribe(t, l, 3, 100)
	p := proposed(t, l, 0, []int32{1, 2, 3}, nil, CaughtUp)
	if want := []Compare{{1, 11, 21}, {3, 13, 23}}; !slices.Equal(p.Members, want) || p.Revision != 1 {
		t.Errorf("compares %v of revision %d, want %v", p.Members, p.Revision, want)
	}
	l.Own(120)
	l.Ends(h2, 120, 120)
	wantHigh(t, l, 100) // the new member counts already
	l.Ends(h3, 110, 110)
	wantHigh(t, l, 110)
	nothingProposed(t, l, 100*time.Millisecond)
	if again := proposed(t, l, 200*time.Millisecond, []int32{1, 2, 3}, nil, CaughtUp); again.ID != p.ID {
		t.Error("a repetition has another ID")
	}
	// One copy was refused at revision 5, after another may have been accepted.
	l.Refused(p.ID, 5)
	l.SetView(func() *View { v := view(4, 2, []int32{1, 2}, nil); v.Revision = 1; return v }(), 0)
	wantHigh(t, l, 110)
	l.SetView(func() *View { v := view(5, 2, []int32{1, 2}, nil); v.Revision = 1; return v }(), 0)
	wantHigh(t, l, 120)
	if l.Refused(p.ID, 6) != 0 {
		t.Error("a refusal of an earlier proposal has an effect")
	}
}

func TestWithoutALeaseNothingIsProposed(t *testing.T) {
	l := led(100, view(1, 2, []int32{1, 2}, nil))
	subscribe(t, l, 3, 100)
	if _, ok := l.Propose(0, false); ok {
		t.Error("proposed without a lease")
	}
}

func TestSmallISRLeavesMembersEligible(t *testing.T) {
	l := led(100, view(1, 2, []int32{1, 2}, nil))
	h2 := subscribe(t, l, 2, 100)
	l.End(h2, StreamGone, 0)
	nothingProposed(t, l, 999*time.Millisecond)
	proposed(t, l, time.Second, []int32{1}, []int32{2}, Gone)
	l.SetView(view(2, 2, []int32{1}, []int32{2}), 0)
	l.Own(120)
	wantHigh(t, l, 100) // it stands still while the ELR has members
	subscribe(t, l, 3, 105)
	proposed(t, l, 0, []int32{1, 3}, nil, CaughtUp)
	l.SetView(view(3, 2, []int32{1, 3}, nil), 0)
	wantHigh(t, l, 105)
}

// A leader that no follower reaches stays replaceable for a while: members without a stream leave
// an ISR that becomes too small only when the controller had the time to elect one of them. That
// they are behind meanwhile changes nothing. Those that are too many leave at once.
func TestALeaderThatNobodyReachesIsNotAloneAtOnce(t *testing.T) {
	const replace = 6 * time.Second
	lead := func(minISR int) *Leader {
		c := Config{Self: 1, BrokerEpoch: 11, Dir: dirOf(1), Epoch: 5, EpochStart: 100, High: 100, End: 100, Noted: true, Limits: limits}
		c.Limits.Replace = replace
		l := Lead(c, view(1, minISR, []int32{1, 2, 3}, nil), 0)
		h2 := subscribe(t, l, 2, 100)
		l.End(h2, StreamGone, 0) // and 3 never had a stream
		for at := time.Duration(0); at < replace; at += 500 * time.Millisecond {
			l.Sweep(at, 200) // acknowledged with acks=1
		}
		return l
	}
	l := lead(2)
	nothingProposed(t, l, replace-1)
	proposed(t, l, replace, []int32{1}, []int32{2, 3}, Gone)
	proposed(t, lead(1), 3*time.Second, []int32{1}, nil, Gone)

	l = lead(2)
	subscribe(t, l, 3, 200)
	proposed(t, l, time.Second, []int32{1, 3}, nil, Gone)
}

func TestAJoinThatLeavesTheISRTooSmallKeepsTheELR(t *testing.T) {
	l := led(100, view(1, 3, []int32{1}, []int32{2}))
	subscribe(t, l, 3, 100)
	proposed(t, l, 0, []int32{1, 3}, []int32{2}, CaughtUp)
}

func TestALowerMinimumEmptiesTheELR(t *testing.T) {
	l := led(100, view(1, 1, []int32{1}, []int32{2}))
	proposed(t, l, 0, []int32{1}, nil, EnoughLive)
}

func TestDamagedMembersLeaveISRAndELR(t *testing.T) {
	for name, v := range map[string]*View{
		"isr": view(1, 2, []int32{1, 2, 3}, nil),
		"elr": view(1, 3, []int32{1, 3}, []int32{2}),
	} {
		l := led(100, v)
		s := Subscription{Broker: 2, BrokerEpoch: 12, Dir: dirOf(2), Serial: 1 << 40, Written: 99, Durable: 99}
		if _, effect, ok := l.Subscribe(s, 0); !ok || effect&MemberShort == 0 || effect&ProposalDue == 0 {
			t.Fatalf("%s: no effect of a log that ends below the high watermark", name)
		}
		proposed(t, l, 0, []int32{1, 3}, nil, Damaged)
	}
	l := led(100, view(1, 3, []int32{1, 2, 3}, nil))
	l.End(subscribe(t, l, 2, 100), StreamDamaged, 0)
	proposed(t, l, 0, []int32{1, 3}, nil, Damaged)
}

func TestI10JoinersHaveAllThatWasCommitted(t *testing.T) {
	try := func(change func(*View, *Subscription)) bool {
		l := led(60, view(1, 2, []int32{1, 2}, nil)) // the epoch begins at 100
		v := view(2, 2, []int32{1, 2}, nil)
		s := Subscription{Broker: 3, BrokerEpoch: 13, Dir: dirOf(3), Serial: 1, Written: 100, Durable: 100, LogStart: 10}
		l.OwnLogStart(10)
		change(v, &s)
		l.SetView(v, 0)
		if _, _, ok := l.Subscribe(s, 0); !ok {
			return false
		}
		_, ok := l.Propose(0, true)
		return ok
	}
	for name, change := range map[string]func(*View, *Subscription){
		"ends below the epoch's start":   func(_ *View, s *Subscription) { s.Durable = 99 },
		"keeps deleted records":          func(_ *View, s *Subscription) { s.LogStart = 9 },
		"begins above the leader":        func(_ *View, s *Subscription) { s.LogStart = 11 },
		"is not active":                  func(v *View, _ *Subscription) { v.Replicas[2].Active = false },
		"has no recorded directory":      func(v *View, _ *Subscription) { v.Replicas[2].Placement = Dir{} },
		"is a former process":            func(_ *View, s *Subscription) { s.BrokerEpoch-- },
		"is on another directory":        func(_ *View, s *Subscription) { s.Dir = dirOf(9) },
		"has only written what it needs": func(_ *View, s *Subscription) { s.Durable, s.Written = 50, 200 },
	} {
		if try(change) {
			t.Errorf("a follower joins that %s", name)
		}
	}
	if !try(func(*View, *Subscription) {}) {
		t.Error("a follower that is caught up cannot join")
	}
	if !try(func(v *View, s *Subscription) { v.Written, s.WriteThrough, s.Durable = true, true, 50 }) {
		t.Error("written records do not count")
	}
	if try(func(v *View, s *Subscription) { v.Written, s.Durable = true, 50 }) {
		t.Error("written records count although the follower's log is not in the mode for it")
	}
}

func TestLaggingMembersLeaveAndReturnAfterAPenalty(t *testing.T) {
	l := led(100, view(1, 1, []int32{1, 2, 3}, nil))
	h2, h3 := subscribe(t, l, 2, 100), subscribe(t, l, 3, 100)
	if l.Sweep(0, 100) {
		t.Error("an idle partition needs sweeps")
	}
	end, now := int64(100), time.Hour // an hour without appends counts for nothing
	step := func(behind int64) {
		now += 500 * time.Millisecond
		end += 10
		l.Own(end)
		l.Ends(h3, end, end)
		l.Ends(h2, end-behind, end-behind)
		l.Sweep(now, end)
	}
	for range 20 {
		step(10) // one sweep late, but always as far as the log was at the last sweep
		nothingProposed(t, l, now)
	}
	begin := now
	l.Ends(h2, end, end)
	for n := int64(1); now-begin < 1500*time.Millisecond; n++ {
		nothingProposed(t, l, now)
		step(10 * n)
	}
	for {
		if _, ok := l.Propose(now, true); ok {
			break
		}
		step(100)
		if now-begin > 6*time.Second {
			t.Fatal("a lagging member stays")
		}
	}
	l.SetView(view(2, 1, []int32{1, 3}, nil), now)
	step(0)
	nothingProposed(t, l, now)
	step(0)
	step(0)
	step(0)
	proposed(t, l, now, []int32{1, 2, 3}, nil, CaughtUp)
}

// stall has member 2 stand still until it leaves, at a rate of ten records each 500 ms, and returns
// the time and the log end.
func stall(t *testing.T, l *Leader, h2, h3 Handle, now time.Duration, end, revision int64) (time.Duration, int64) {
	t.Helper()
	for began := now; ; now += 500 * time.Millisecond {
		end += 10
		l.Own(end)
		l.Ends(h3, end, end)
		l.Sweep(now, end)
		if p, ok := l.Propose(now, true); ok {
			if p.Reason != Stalled && p.Reason != Lagging {
				t.Fatalf("%+v", p)
			}
			break
		}
		if now-began > 6*time.Second {
			t.Fatal("a member that stands still stays")
		}
	}
	l.SetView(view(revision, 1, []int32{1, 3}, nil), now)
	return now, end
}

// back has member 2 keep pace and returns for how long it is kept out.
func back(t *testing.T, l *Leader, h2, h3 Handle, now *time.Duration, end *int64, revision int64) time.Duration {
	t.Helper()
	for began := *now; ; {
		*now += 500 * time.Millisecond
		*end += 10
		l.Own(*end)
		l.Sweep(*now, *end) // when a record is on its way
		l.Ends(h3, *end, *end)
		l.Ends(h2, *end, *end)
		if p, ok := l.Propose(*now, true); ok {
			if p.Reason != CaughtUp {
				t.Fatalf("%+v", p)
			}
			l.SetView(view(revision, 1, []int32{1, 2, 3}, nil), *now)
			return *now - began
		}
		if *now-began > 5*time.Minute {
			t.Fatal("a member that keeps pace stays out")
		}
	}
}

// Under load, a follower that keeps pace lacks the latest records at each sweep.
func TestAMemberThatKeepsPaceReturnsAfterItsPenalty(t *testing.T) {
	l := led(100, view(1, 1, []int32{1, 2, 3}, nil))
	h2, h3 := subscribe(t, l, 2, 100), subscribe(t, l, 3, 100)
	now, end := stall(t, l, h2, h3, time.Hour, 100, 2)
	if d := back(t, l, h2, h3, &now, &end, 3); d < minPenalty || d > minPenalty+time.Second {
		t.Errorf("it returns after %v", d)
	}
}

// A member that stands still again soon after its return stays out for longer; much later it does
// not.
func TestAPenaltyGrowsUntilItIsForgotten(t *testing.T) {
	l := led(100, view(1, 1, []int32{1, 2, 3}, nil))
	h2, h3 := subscribe(t, l, 2, 100), subscribe(t, l, 3, 100)
	now, end := time.Hour, int64(100)
	revision, longest := int64(2), time.Duration(0)
	again := func(wait time.Duration) time.Duration {
		now += wait
		l.Sweep(now, end)
		now, end = stall(t, l, h2, h3, now, end, revision)
		d := back(t, l, h2, h3, &now, &end, revision+1)
		revision += 2
		return d
	}
	for range 8 {
		d := again(0)
		if d < longest || d < minPenalty {
			t.Errorf("a penalty of %v follows one of %v", d, longest)
		}
		longest = d
	}
	if longest < maxPenalty || longest > maxPenalty+2*time.Second {
		t.Errorf("the longest penalty is %v", longest)
	}
	if d := again(quietPenalties * maxPenalty); d > minPenalty+time.Second {
		t.Errorf("%v after a long quiet time", d)
	}
	if d := again(quietPenalties * minPenalty); d > minPenalty+time.Second {
		t.Errorf("%v after a quiet time that is long for a short penalty", d)
	}
}

// While too few members are in sync, the high watermark stands where the log of one ends whose disk
// hangs. That one does not return before it has acknowledged more.
func TestAMemberReturnsWhenItHasGoneOn(t *testing.T) {
	returns := func(t *testing.T, l *Leader, now time.Duration) {
		if p, ok := l.Propose(now, true); !ok || p.Reason != CaughtUp || !slices.Equal(p.ISR, []int32{1, 2}) {
			t.Errorf("it does not return: %+v, %t", p, ok)
		}
	}
	t.Run("it acknowledges a record", func(t *testing.T) {
		l, h2, now := stoodStill(t)
		l.Ends(h2, 101, 101)
		returns(t, l, now)
	})
	// Below min.insync.replicas nothing is appended that it could acknowledge.
	t.Run("the leader has no more", func(t *testing.T) {
		l, _, now := stoodStill(t)
		l.Own(100)
		returns(t, l, now)
	})
}

// stoodStill returns the leader of a partition whose second member has left the ISR at offset 100,
// where it stands.
func stoodStill(t *testing.T) (*Leader, Handle, time.Duration) {
	t.Helper()
	l := led(100, view(1, 2, []int32{1, 2}, nil))
	h2 := subscribe(t, l, 2, 100)
	l.Own(110)
	now := time.Hour
	sweep := func() (p Proposal, ok bool) {
		now += 500 * time.Millisecond
		l.Sweep(now, 110)
		l.Ends(h2, 100, 100)
		return l.Propose(now, true)
	}
	p, ok := sweep()
	for ; !ok; p, ok = sweep() {
		if now > time.Hour+time.Minute {
			t.Fatal("a member that stands still stays")
		}
	}
	if p.Reason != Lagging || !slices.Equal(p.ELR, []int32{2}) {
		t.Fatalf("it leaves with %+v", p)
	}
	l.SetView(view(2, 2, []int32{1}, []int32{2}), now)
	for range 20 {
		if p, ok := sweep(); ok {
			t.Fatalf("it returns where it stood: %+v", p)
		}
	}
	return l, h2, now
}

func TestAPauseOfTheLeaderBlamesNoFollower(t *testing.T) {
	l := led(100, view(1, 1, []int32{1, 2}, nil))
	subscribe(t, l, 2, 100)
	l.Own(200)
	l.Sweep(0, 200)
	l.Sweep(time.Minute, 200)
	nothingProposed(t, l, time.Minute)
}

func TestAMemberWithoutARecordedDirectoryIsBehind(t *testing.T) {
	v := view(1, 2, []int32{1, 2}, nil)
	v.Replicas[1].Placement = Dir{}
	l := led(50, v)
	subscribe(t, l, 2, 100)
	for now := time.Duration(0); now <= 3*time.Second; now += 500 * time.Millisecond {
		l.Sweep(now, 100)
	}
	proposed(t, l, 3*time.Second, []int32{1}, []int32{2}, Lagging)
}

func TestStalledMembersLeaveOnlyIfEnoughRemain(t *testing.T) {
	for minISR, leaves := range map[int]bool{2: true, 3: false} {
		l := led(100, view(1, minISR, []int32{1, 2, 3}, nil))
		subscribe(t, l, 2, 100)
		h3 := subscribe(t, l, 3, 100)
		l.Own(200)
		l.Ends(h3, 200, 200)
		for now := time.Duration(0); now <= 1500*time.Millisecond; now += 500 * time.Millisecond {
			l.Sweep(now, 200)
		}
		if p, ok := l.Propose(1500*time.Millisecond, true); ok != leaves || ok && p.Reason != Stalled {
			t.Errorf("min.insync.replicas %d: %v %+v", minISR, ok, p)
		}
	}
}

func TestReassignmentDoesNotRaiseTheMinimum(t *testing.T) {
	v := view(1, 3, []int32{1}, nil)
	v.Replicas[1].Adding, v.Replicas[2].Adding = true, true
	if l := led(100, v); l.MinISR() != 1 {
		t.Errorf("min.insync.replicas %d of one replica that stays", l.MinISR())
	}
}

// A follower moves its start as soon as the leader's is durable, and may say so before the leader
// itself counts it.
func TestAFollowerMayMoveItsStartFirst(t *testing.T) {
	l := led(100, view(1, 2, []int32{1, 2}, nil))
	h3 := subscribe(t, l, 3, 90)
	l.LogStart(h3, 50)
	l.Ends(h3, 100, 100)
	proposed(t, l, 0, []int32{1, 2, 3}, nil, CaughtUp)
}

// A member may begin above a new leader, because not all replicas had moved their starts. It joins
// again if it leaves the ISR meanwhile, in the same subscription. A later one is refused: then it
// begins again where the leader does.
func TestAMemberThatBeginsAboveItsLeaderReturns(t *testing.T) {
	l := led(100, view(1, 2, []int32{1}, []int32{2}))
	s := Subscription{Broker: 2, BrokerEpoch: 12, Dir: dirOf(2), Serial: 1, Written: 100, Durable: 100, LogStart: 50}
	if _, _, ok := l.Subscribe(s, 0); !ok {
		t.Fatal("a member of the ELR is refused")
	}
	proposed(t, l, 0, []int32{1, 2}, nil, CaughtUp)
	l.SetView(view(2, 1, []int32{1}, nil), 0)
	proposed(t, l, 0, []int32{1, 2}, nil, CaughtUp)
	l.SetView(view(3, 1, []int32{1}, nil), 0)
	s.Serial = 2
	if _, _, ok := l.Subscribe(s, 0); ok {
		t.Error("a log that begins above the leader's is accepted, although its replica is no member")
	}
}

// A log that has to begin again is not in an ISR, and does not get into one: neither by a proposal
// that was sent before, nor by the ends of the subscription that its broker has left.
func TestALogThatBeginsAgainIsNotProposed(t *testing.T) {
	l := led(100, view(1, 2, []int32{1, 2}, nil))
	asks := Subscription{Broker: 3, BrokerEpoch: 13, Dir: dirOf(3), Serial: 1 << 41, LogStart: 50}
	subscribe(t, l, 3, 100)
	if member, effect := l.Asks(asks, 0); member || effect&ProposalDue != 0 {
		t.Errorf("a broker outside the ISR: member %t, effect %v", member, effect)
	}
	if p, ok := l.Propose(0, true); ok {
		t.Errorf("%v is proposed by the ends of a subscription that has ended", p.ISR)
	}
	asks.Serial++
	subscribe(t, l, 3, 100)
	old := asks
	old.Serial = 1
	if l.Asks(old, 0); l.due()&ProposalDue == 0 {
		t.Error("a request that was overtaken ends the subscription")
	}
	proposed(t, l, 0, []int32{1, 2, 3}, nil, CaughtUp)
	if member, _ := l.Asks(asks, 0); !member {
		t.Error("a broker whose ISR was proposed, and may have been accepted, is no member")
	}
	for _, b := range []int32{1, 9} {
		asks.Broker = b
		if member, effect := l.Asks(asks, 0); member || effect != 0 {
			t.Errorf("broker %d: member %t, effect %v", b, member, effect)
		}
	}
}

func TestMinLogStartWaitsForISRAndELR(t *testing.T) {
	l := led(100, view(1, 3, []int32{1, 2}, []int32{3}))
	l.OwnLogStart(50)
	h2, h3 := subscribe(t, l, 2, 100), subscribe(t, l, 3, 100)
	l.LogStart(h2, 50)
	if got := l.MinLogStart(); got != 0 {
		t.Errorf("%d, but the ELR has the records from 0", got)
	}
	l.LogStart(h3, 40)
	if got := l.MinLogStart(); got != 40 {
		t.Errorf("%d, want 40", got)
	}
}

func TestEndsBelongToASubscription(t *testing.T) {
	l := led(50, view(1, 2, []int32{1, 2}, nil))
	old := subscribe(t, l, 2, 90)
	wantHigh(t, l, 90)
	subscribe(t, l, 2, 90)
	if l.Ends(old, 100, 100) != 0 {
		t.Error("ends of an earlier subscription count")
	}
	late := Subscription{Broker: 2, BrokerEpoch: 12, Dir: dirOf(2), Serial: 1, Written: 60, Durable: 60}
	if _, _, ok := l.Subscribe(late, 0); ok {
		t.Error("a request that was overtaken begins a subscription")
	}
	cfg := Config{Self: 1, BrokerEpoch: 11, Dir: dirOf(1), Epoch: 6, EpochStart: 100, Noted: true, High: 90, End: 100}
	next := Lead(cfg, view(2, 2, []int32{1, 2}, nil), 0)
	if next.Ends(old, 100, 100) != 0 {
		t.Error("ends of an earlier epoch count")
	}
	again := view(3, 2, []int32{1, 2}, nil)
	again.Replicas[1].BrokerEpoch++ // a new process
	l.SetView(again, 0)
	l.Own(120)
	wantHigh(t, l, 90)
}
