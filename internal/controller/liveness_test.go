package controller

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	testTimeout  = DefaultSessionTimeout
	testInterval = DefaultHeartbeatInterval
)

var processA, processB = [16]byte{0xa}, [16]byte{0xb}

// link is a broker of a test with its heartbeats to the controller.
type link struct {
	s                  *sessions
	sequence, answered uint64
	sentAt             map[uint64]time.Duration
	lease              time.Duration // when it ends
	applied, revision  int64         // of the broker and of the controller
	fenced             bool
}

func newLink(now time.Duration) *link {
	l := &link{s: newSessions(testTimeout, now), sentAt: map[uint64]time.Duration{}}
	l.s.begin(1, processA, true, now)
	return l
}

// beat sends a heartbeat, which arrives if out, and whose answer arrives if back.
func (l *link) beat(now time.Duration, out, back bool) {
	l.sequence++
	l.sentAt[l.sequence] = now
	if !out {
		return
	}
	a, ok := l.s.beat(Heartbeat{Broker: 1, Incarnation: processA, Sequence: l.sequence, Answered: l.answered, Applied: l.applied},
		shown{now, now, true, l.revision, !l.fenced})
	if ok && back {
		l.answered = a.Sequence
		if a.Lease > 0 {
			l.lease = max(l.lease, l.sentAt[a.Proven]+a.Lease)
		}
	}
}

// run beats until the session ends or the time is over, and returns the time at the end.
func (l *link) run(from, until time.Duration, out, back bool) (now time.Duration, ended bool) {
	for now = from; now < until; now += 50 * time.Millisecond {
		if now%testInterval == 0 {
			l.beat(now, out, back)
		}
		if len(l.s.expired(now, testInterval, [16]byte{})) > 0 {
			return now, true
		}
	}
	return now, false
}

// History 10: a broker that is heard but hears nothing loses its session, like one that is not
// heard.
func TestASessionNeedsBothDirections(t *testing.T) {
	for name, c := range map[string]struct{ out, back bool }{"nothing arrives": {}, "only answers are lost": {out: true}} {
		l := newLink(0)
		if at, ended := l.run(0, time.Minute, true, true); ended {
			t.Fatalf("%s: the session of a broker without a fault ended at %v", name, at)
		}
		at, ended := l.run(time.Minute, 2*time.Minute, c.out, c.back)
		if after := at - time.Minute; !ended || after > testTimeout {
			t.Errorf("%s: the session ended after %v (%t), want at most %v", name, after, ended, testTimeout)
		}
		if l.lease > at {
			t.Errorf("%s: the lease ends at %v, after the session, at %v", name, l.lease, at)
		}
	}
}

// Whatever is lost in which direction, a lease has ended when the session ends.
func TestALeaseNeverOutlivesTheSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLink(0)
		for now := time.Duration(0); now < 30*time.Second; now += 100 * time.Millisecond {
			if rapid.IntRange(0, 3).Draw(t, "beat") == 0 {
				l.beat(now, rapid.IntRange(0, 2).Draw(t, "out") > 0, rapid.IntRange(0, 2).Draw(t, "back") > 0)
			}
			if len(l.s.expired(now, testInterval, [16]byte{})) > 0 {
				if l.lease > now {
					t.Fatalf("the session ended at %v, the lease ends at %v", now, l.lease)
				}
				return
			}
		}
	})
}

// A lease ends with the quorum's confirmation of the controller that granted it: another controller
// may decide since then.
func TestALeaseNeedsAConfirmedController(t *testing.T) {
	s := newSessions(testTimeout, 0)
	s.begin(1, processA, true, 0)
	beat := func(sequence, answered uint64, now, confirmed time.Duration) HeartbeatAnswer {
		a, ok := s.beat(Heartbeat{Broker: 1, Incarnation: processA, Sequence: sequence, Answered: answered},
			shown{now, confirmed, confirmed >= 0, 0, true})
		if !ok {
			t.Fatal("no session")
		}
		return a
	}
	if a := beat(1, 0, 10*time.Second, 10*time.Second); a.Lease != 0 {
		t.Errorf("a lease before an answer has arrived: %+v", a)
	}
	if a := beat(2, 1, 11*time.Second, 11*time.Second); a.Lease != testTimeout-testTimeout/drift || a.Proven != 1 {
		t.Errorf("%+v", a)
	}
	if a := beat(3, 2, 12*time.Second, 9*time.Second); a.Lease != time.Second-testTimeout/4-testTimeout/drift || a.Proven != 2 {
		t.Errorf("confirmed two seconds before the proven answer: %+v", a)
	}
	if a := beat(4, 3, 30*time.Second, 9*time.Second); a.Lease > 0 {
		t.Errorf("confirmed long ago: %+v", a)
	}
	if a := beat(5, 4, 31*time.Second, math.MinInt64); a.Lease > 0 || a.Proven != 4 {
		t.Errorf("never confirmed: %+v", a)
	}
}

// A heartbeat of a former process has no effect.
func TestOnlyTheProcessWithTheSessionIsHeard(t *testing.T) {
	s := newSessions(testTimeout, 0)
	s.begin(1, processA, true, 0)
	s.begin(1, processB, true, time.Second)
	if _, ok := s.beat(Heartbeat{Broker: 1, Incarnation: processA, Sequence: 99},
		shown{time.Second, time.Second, true, 0, true}); ok {
		t.Error("the former process was answered")
	}
	if incarnation, last, ok := s.live(1); incarnation != processB || last.Sequence != 0 || !ok {
		t.Errorf("%v %+v %t", incarnation, last, ok)
	}
}

// A refused dial ends a session after one missing heartbeat, and no sooner.
func TestARefusedDialEndsTheSession(t *testing.T) {
	l := newLink(0)
	l.run(0, 10*time.Second, true, true)
	l.s.refusedDial(1, 10*time.Second)
	l.beat(10*time.Second, true, true)
	if at, ended := l.run(10*time.Second+50*time.Millisecond, 11*time.Second, false, false); ended {
		t.Errorf("a heartbeat had arrived since: ended at %v", at)
	}
	l.beat(11*time.Second, true, true)
	l.s.refusedDial(1, 11*time.Second)
	at, ended := l.run(11*time.Second+50*time.Millisecond, time.Minute, false, false)
	if after := at - 11*time.Second; !ended || after > testInterval+100*time.Millisecond || after < testInterval {
		t.Errorf("ended after %v (%t)", after, ended)
	}
}

// A controller that did not run for a while condemns no broker.
func TestAPausedControllerBeginsAgain(t *testing.T) {
	l := newLink(0)
	l.run(0, 10*time.Second, true, true)
	if ended := l.s.expired(20*time.Second, testInterval, [16]byte{}); len(ended) > 0 {
		t.Errorf("ended: %v", ended)
	}
	at, ended := l.run(20*time.Second+50*time.Millisecond, time.Minute, false, false)
	if after := at - 20*time.Second; !ended || after != testTimeout {
		t.Errorf("ended after %v (%t)", after, ended)
	}
	l.s.fenced(1, at)
	if got := l.s.expired(at, testInterval, [16]byte{}); !slices.Equal(got, nil) {
		t.Errorf("ended again: %v", got)
	}
}

// A broker whose metadata stand still is heard and hears everything, and has neither a lease nor
// its session a timeout later.
func TestASessionNeedsAppliedMetadata(t *testing.T) {
	l := newLink(0)
	l.run(0, 10*time.Second, true, true)
	l.revision = 1
	at, ended := l.run(10*time.Second, time.Minute, true, true)
	if after := at - 10*time.Second; !ended || after > testTimeout+testInterval {
		t.Fatalf("the session ended after %v (%t)", after, ended)
	}
	if l.lease > at {
		t.Errorf("the lease ends at %v, after the session, at %v", l.lease, at)
	}
	l.s.fenced(1, at)
	l.fenced = true
	if _, ended := l.run(at, at+time.Minute, true, true); ended || l.s.proof(1, at+time.Minute) {
		t.Errorf("the session of a fenced broker that is reached ended: %t", ended)
	}
	l.applied = 1
	l.run(2*time.Minute, 2*time.Minute+time.Second, true, true)
	if !l.s.proof(1, 2*time.Minute+time.Second) {
		t.Error("no proof although the revision is applied")
	}
}

// A broker that becomes active has no lease before it has applied that: its replicas may have left
// the ISR since it proved itself.
func TestALeaseNeedsTheActivationApplied(t *testing.T) {
	l := newLink(0)
	l.run(0, time.Second, true, true)
	l.s.fenced(1, time.Second)
	l.fenced, l.revision, l.applied = true, 1, 1
	l.run(time.Second, 3*time.Second, true, true)
	if !l.s.proof(1, 3*time.Second) {
		t.Fatal("no proof")
	}
	l.fenced, l.revision, l.lease = false, 3, 0 // at 2, its replicas left, and at 3 it is active
	l.run(3*time.Second, 4*time.Second, true, true)
	if l.lease != 0 {
		t.Errorf("a lease until %v, although the broker knows revision 1", l.lease)
	}
	l.applied = 3
	l.run(4*time.Second, 5*time.Second, true, true)
	if l.lease == 0 {
		t.Error("no lease although the activation is applied")
	}
}

// A broker that applies every revision a while after it was made, under changes without a pause,
// keeps its session and its lease.
func TestABrokerThatIsALittleBehindKeepsItsSession(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Second, 2 * time.Second} {
		l := newLink(0)
		for now := time.Duration(0); now < time.Minute; now += 10 * time.Millisecond {
			l.revision, l.applied = int64(now/time.Millisecond), int64(max(0, now-lag)/time.Millisecond)
			if now%testInterval == 0 {
				l.beat(now, true, true)
			}
			if len(l.s.expired(now, testInterval, [16]byte{})) > 0 {
				t.Fatalf("%v behind: the session ended at %v", lag, now)
			}
			if now > 5*time.Second && l.lease <= now {
				t.Fatalf("%v behind: no lease at %v", lag, now)
			}
		}
	}
}

// While the end of a session is being written, its process gets no lease any more.
func TestASessionThatEndsProvesNothing(t *testing.T) {
	l := newLink(0)
	l.run(0, 10*time.Second, true, true)
	at, ended := l.run(10*time.Second, time.Minute, false, false)
	if !ended {
		t.Fatal("the session did not end")
	}
	for range 3 {
		l.beat(at, true, true)
	}
	if l.lease > at || l.s.proof(1, at) {
		t.Errorf("a lease until %v at %v", l.lease, at)
	}
	if got := l.s.expired(at+time.Millisecond, testInterval, [16]byte{}); !slices.Equal(got, []int32{1}) {
		t.Errorf("its end was forgotten: %v", got)
	}
}

// A connection that ends while the controller is new says nothing of a process that may not know
// this controller.
func TestARefusedDialNeedsAHeartbeatOfTheTerm(t *testing.T) {
	l := newLink(0)
	l.s.refusedDial(1, 0)
	if at, ended := l.run(0, time.Minute, false, false); !ended || at < testTimeout {
		t.Errorf("ended at %v (%t)", at, ended)
	}
}
