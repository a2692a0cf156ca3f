package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// clockError is by which part the clocks of the succession's processes are fast or slow.
const clockError = 0.002

// succession is a broker with its heartbeats to controllers that lead one after the other, of which
// each takes this broker for its predecessor's. Former ones continue to answer, because they do not
// know that another one leads. No process can compare its clock with another one's. The metadata
// change all the time; the broker applies the changes late, or not at all for a while. Connections
// end at both ends, as those through a relay do. A third of the successions has such ends, and a
// third times at which the broker applies nothing; each would hide faults of the rest.
type succession struct {
	rand        *rand.Rand
	seed, kind  uint64
	now         time.Duration
	broker      clock
	controllers []*reigning // the newest one is last
	arriving    []arrival

	made    []time.Duration // when the revisions were made, from 1 on
	applied int64           // by the broker
	stuck   time.Duration   // until then it applies nothing
	runs    bool            // the metadata shows the broker as running
	fence   int64           // the revision that has fenced it last
	writing bool            // a state of the broker is being written

	asks               int // the controller that gets the broker's heartbeats
	sequence, answered uint64
	doubted            uint64                   // heartbeats up to this one grant no lease
	sent               map[uint64]time.Duration // on the broker's clock
	lease              time.Duration            // its end, on the broker's clock
	hears, heard       bool                     // the directions that work
}

// clock shows another time than others, and runs faster or slower.
type clock struct {
	offset time.Duration
	rate   float64
}

func (c clock) at(now time.Duration) time.Duration { return c.offset + c.lasts(now) }

func (c clock) lasts(d time.Duration) time.Duration { return time.Duration(float64(d) * c.rate) }

type reigning struct {
	clock
	*sessions
	confirmed time.Duration // by a quorum
	revision  int64         // the newest one that it shows
}

// arrival is a message on its way.
type arrival struct {
	due  time.Duration
	take func()
}

func newSuccession(seed uint64, b broken) *succession {
	w := &succession{rand: rand.New(rand.NewPCG(seed, 3)), seed: seed, kind: seed % 3,
		sent: map[uint64]time.Duration{}, hears: true, heard: true, runs: true}
	w.broker = w.clock()
	w.elect(b)
	return w
}

func (w *succession) clock() clock {
	return clock{time.Duration(w.rand.Int64N(int64(time.Hour))), 1 + clockError*(2*w.rand.Float64()-1)}
}

func (w *succession) newest() *reigning { return w.controllers[len(w.controllers)-1] }

// elect makes the next controller. It knows from a voter how long ago its predecessors were
// confirmed at the latest.
func (w *succession) elect(b broken) {
	c := &reigning{clock: w.clock(), confirmed: w.now}
	c.sessions = newSessions(testTimeout, c.at(w.now))
	c.broken = b
	switch {
	case !w.runs: // it registers
	case len(w.controllers) == 0:
		c.begin(1, processA, true, c.at(w.now))
	default:
		last := time.Duration(0)
		for _, former := range w.controllers {
			last = max(last, former.confirmed)
		}
		if w.rand.IntN(3) == 0 { // the voter was in touch with a leader that knows nothing of it
			last += time.Duration(w.rand.Int64N(int64(w.now - last + 1)))
		}
		until := c.at(w.now) - w.clock().lasts(w.now-last)
		c.beginFormer(1, processA, until, c.at(w.now), testInterval)
	}
	w.controllers = append(w.controllers, c)
	w.writing = false // a former controller writes nothing any more
}

func (w *succession) later(take func()) { w.within(100*time.Millisecond, take) }

// within lets something happen within a time, mostly soon.
func (w *succession) within(d time.Duration, take func()) {
	f := w.rand.Float64()
	w.arriving = append(w.arriving, arrival{w.now + time.Duration(f*f*f*float64(d)), take})
}

// beat sends a heartbeat to the controller that the broker knows.
func (w *succession) beat() {
	if w.rand.IntN(2) == 0 {
		w.asks = len(w.controllers) - 1
	}
	w.sequence++
	w.sent[w.sequence] = w.broker.at(w.now)
	h := Heartbeat{Broker: 1, Incarnation: processA, Sequence: w.sequence, Answered: w.answered, Applied: w.applied}
	c := w.controllers[w.asks]
	if !w.heard {
		return
	}
	w.later(func() {
		a, ok := c.beat(h, shown{c.at(w.now), c.at(c.confirmed), true, c.revision, w.runs})
		switch {
		case !ok && c == w.newest() && w.hears: // it registers again
			c.begin(1, processA, false, c.at(w.now))
			clear(w.sent)
			w.answered = 0
		case ok && w.hears:
			w.later(func() { w.take(h.Sequence, a) })
		}
	})
}

// take takes an answer as the broker does.
func (w *succession) take(sequence uint64, a HeartbeatAnswer) {
	if _, ok := w.sent[sequence]; !ok {
		return
	}
	w.answered = max(w.answered, a.Sequence)
	if at, ok := w.sent[a.Proven]; ok && a.Lease > 0 && sequence > w.doubted {
		w.lease = max(w.lease, at+a.Lease)
	}
}

// relay ends the connections between the broker and one controller, or all of them. Dials are
// refused from then on.
func (w *succession) relay() {
	only := -1
	switch w.rand.IntN(4) {
	case 0:
		only = w.rand.IntN(len(w.controllers))
	case 1, 2:
		only = len(w.controllers) - 1
	}
	for i, c := range w.controllers {
		if only >= 0 && i != only {
			continue
		}
		w.later(func() { c.refusedDial(1, c.at(w.now)) })
	}
	w.heard = false
	w.later(func() {
		if only < 0 || only == w.asks {
			w.doubted, w.lease = w.sequence, 0
		}
	})
}

// change lets the metadata change, and the broker apply it.
func (w *succession) change() {
	if w.rand.IntN(20) == 0 {
		w.made = append(w.made, w.now)
		w.newest().revision = int64(len(w.made))
	}
	if w.kind == 1 && w.rand.IntN(4000) == 0 {
		w.stuck = w.now + time.Duration(w.rand.Int64N(int64(4*testTimeout)))
	}
	if w.now >= w.stuck && w.rand.IntN(20) == 0 {
		w.applied += w.rand.Int64N(int64(len(w.made)) - w.applied + 1)
	}
}

// decide lets the newest controller decide about the broker.
func (w *succession) decide() (err error) {
	c := w.newest()
	write := func(runs bool) {
		w.writing = true
		w.within(500*time.Millisecond, func() {
			if c != w.newest() {
				return
			}
			w.writing, w.runs = false, runs
			w.made = append(w.made, w.now)
			if c.revision = int64(len(w.made)); !runs {
				w.fence = c.revision
			}
		})
	}
	switch ended := len(c.expired(c.at(w.now), testInterval, [16]byte{})) > 0; {
	case w.writing:
	case ended && w.runs:
		write(false)
	case ended:
		c.fenced(1, c.at(w.now))
	case !w.runs && c.proof(1, c.at(w.now)):
		if w.applied < w.fence {
			return fmt.Errorf("at %v the broker becomes active, and does not know revision %d, which fenced it", w.now, w.fence)
		}
		write(true)
	}
	return nil
}

// check compares the broker's lease with what was decided.
func (w *succession) check() error {
	here := w.broker.at(w.now)
	if w.lease <= here {
		return nil
	}
	if !w.runs {
		return fmt.Errorf("at %v the broker is fenced by controller %d, with a lease for another %v",
			w.now, len(w.controllers), w.lease-here)
	}
	if next := int(w.applied); next < len(w.made) && w.now-w.made[next] > testTimeout {
		return fmt.Errorf("at %v the broker has a lease for another %v and does not know revision %d, made %v ago", w.now, w.lease-here,
			next+1, w.now-w.made[next])
	}
	return nil
}

// run returns the first violation within a time.
func (w *succession) run(most time.Duration, b broken) error {
	var beatAt, electAt, cutAt, relayAt time.Duration
	for w.now < most {
		w.now += time.Millisecond
		for i := 0; i < len(w.arriving); i++ {
			if a := w.arriving[i]; a.due <= w.now {
				w.arriving = slices.Delete(w.arriving, i, i+1)
				i--
				a.take()
			}
		}
		w.change()
		if w.now >= beatAt {
			beatAt = w.now + time.Duration(w.rand.Int64N(int64(4*testInterval)))
			w.beat()
		}
		if w.now >= cutAt {
			cutAt = w.now + time.Duration(w.rand.Int64N(int64(3*testTimeout)))
			w.hears, w.heard = w.rand.IntN(2) == 0, w.rand.IntN(3) > 0
		}
		if w.kind == 2 && w.now >= relayAt {
			relayAt = w.now + time.Duration(w.rand.Int64N(int64(2*testTimeout)))
			w.relay()
		}
		c := w.newest()
		if w.rand.IntN(100) == 0 && w.hears { // a controller that is cut off with its broker is not confirmed
			c.confirmed = max(c.confirmed, w.now-time.Duration(w.rand.Int64N(int64(200*time.Millisecond))))
		}
		if w.now >= electAt {
			electAt = w.now + time.Duration(w.rand.Int64N(int64(2*testTimeout)<<(w.seed/3%4)))
			w.elect(b)
		} else if err := w.decide(); err != nil {
			return err
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	return nil
}

// Whatever former controllers have granted, however late it arrives, whatever the clocks show and
// wherever connections end: a broker that is fenced has no lease, and one that has a lease knows
// what was decided a session ago.
func TestNoLeaseOutlivesWhatProvedIt(t *testing.T) {
	for seed := range uint64(40) {
		if err := newSuccession(seed, broken{}).run(2*time.Minute, broken{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The broker of a controller that was cut off is fenced before others would be, but not before it
// had time to be heard.
func TestTheFormerControllersBrokerIsFencedFirst(t *testing.T) {
	const elected = time.Hour
	for name, c := range map[string]struct{ until, want time.Duration }{
		"confirmed until the election":    {elected, testTimeout - testTimeout/4},
		"confirmed a second before":       {elected - time.Second, testTimeout - testTimeout/4 - time.Second},
		"confirmed long ago":              {elected - time.Minute, testInterval},
		"confirmed later, as clocks show": {elected + time.Second, testTimeout - testTimeout/4},
	} {
		s := newSessions(testTimeout, elected)
		s.beginFormer(1, processA, c.until, elected, testInterval)
		s.begin(2, processB, true, elected)
		for now := elected; ; now += time.Millisecond {
			if ended := s.expired(now, testInterval, [16]byte{}); len(ended) > 0 {
				if now-elected != c.want || !slices.Equal(ended, []int32{1}) {
					t.Errorf("%s: %v ended after %v, want broker 1 after %v", name, ended, now-elected, c.want)
				}
				break
			}
		}
	}
}
