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
// know that another one leads. No process can compare its clock with another one's.
type succession struct {
	rand        *rand.Rand
	now         time.Duration
	broker      clock
	controllers []*reigning // the newest one is last
	arriving    []arrival

	sequence, answered uint64
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
}

// arrival is a message on its way.
type arrival struct {
	due  time.Duration
	take func()
}

func newSuccession(seed uint64, b broken) *succession {
	w := &succession{rand: rand.New(rand.NewPCG(seed, 3)), sent: map[uint64]time.Duration{}, hears: true, heard: true}
	w.broker = w.clock()
	w.elect(b)
	return w
}

func (w *succession) clock() clock {
	return clock{time.Duration(w.rand.Int64N(int64(time.Hour))), 1 + clockError*(2*w.rand.Float64()-1)}
}

// elect makes the next controller. It knows from a voter how long ago its predecessors were confirmed
// at the latest.
func (w *succession) elect(b broken) {
	c := &reigning{clock: w.clock(), confirmed: w.now}
	c.sessions = newSessions(testTimeout, c.at(w.now))
	if c.broken = b; len(w.controllers) == 0 {
		c.begin(1, processA, c.at(w.now))
	} else {
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
}

func (w *succession) later(take func()) {
	w.arriving = append(w.arriving, arrival{w.now + time.Duration(w.rand.Int64N(int64(100*time.Millisecond))), take})
}

// beat sends a heartbeat to one of the newest controllers.
func (w *succession) beat() {
	w.sequence++
	w.sent[w.sequence] = w.broker.at(w.now)
	h := Heartbeat{Broker: 1, Incarnation: processA, Sequence: w.sequence, Answered: w.answered}
	c := w.controllers[max(0, len(w.controllers)-1-w.rand.IntN(2))]
	if !w.heard {
		return
	}
	w.later(func() {
		a, ok := c.beat(h, c.at(w.now), c.at(c.confirmed), true)
		if !ok || !w.hears {
			return
		}
		w.later(func() {
			w.answered = max(w.answered, a.Sequence)
			if at, ok := w.sent[a.Proven]; ok && a.Lease > 0 {
				w.lease = max(w.lease, at+a.Lease)
			}
		})
	})
}

// run returns the first violation within a number of sessions, and how many sessions ended.
func (w *succession) run(sessions int, b broken) (ended int, err error) {
	beatAt, electAt, cutAt := time.Duration(0), time.Duration(0), time.Duration(0)
	for ended < sessions {
		w.now += time.Millisecond
		for i := 0; i < len(w.arriving); i++ {
			if a := w.arriving[i]; a.due <= w.now {
				w.arriving = slices.Delete(w.arriving, i, i+1)
				i--
				a.take()
			}
		}
		if w.now >= beatAt {
			beatAt = w.now + time.Duration(w.rand.Int64N(int64(2*testInterval)))
			w.beat()
		}
		if w.now >= cutAt {
			cutAt = w.now + time.Duration(w.rand.Int64N(int64(3*testTimeout)))
			w.hears, w.heard = w.rand.IntN(2) == 0, w.rand.IntN(3) > 0
		}
		c := w.controllers[len(w.controllers)-1]
		if w.rand.IntN(100) == 0 && w.hears { // a controller that is cut off with its broker is not confirmed
			c.confirmed = max(c.confirmed, w.now-time.Duration(w.rand.Int64N(int64(200*time.Millisecond))))
		}
		if w.now >= electAt {
			electAt = w.now + time.Duration(w.rand.Int64N(int64(2*testTimeout)))
			w.elect(b)
			continue
		}
		if len(c.expired(c.at(w.now), testInterval)) == 0 {
			continue
		}
		ended++
		if here := w.broker.at(w.now); w.lease > here {
			return ended, fmt.Errorf("fenced at %v by controller %d, with a lease for another %v", w.now, len(w.controllers), w.lease-here)
		}
		c.begin(1, processA, c.at(w.now)) // it registers again
		clear(w.sent)
		w.answered, w.lease = 0, 0
	}
	return ended, nil
}

// Whatever former controllers have granted, however late it arrives and whatever the clocks show: a
// broker that is fenced has no lease.
func TestNoLeaseOutlivesTheControllerThatGrantedIt(t *testing.T) {
	for seed := range uint64(40) {
		if _, err := newSuccession(seed, broken{}).run(20, broken{}); err != nil {
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
		s.begin(2, processB, elected)
		for now := elected; ; now += time.Millisecond {
			if ended := s.expired(now, testInterval); len(ended) > 0 {
				if now-elected != c.want || !slices.Equal(ended, []int32{1}) {
					t.Errorf("%s: %v ended after %v, want broker 1 after %v", name, ended, now-elected, c.want)
				}
				break
			}
		}
	}
}
