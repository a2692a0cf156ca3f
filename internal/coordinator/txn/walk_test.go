package txn

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/coordinator"
)

func itoa(n int) string { return strconv.Itoa(n) }

type seeded struct{ *rand.Rand }

func (s seeded) roll(n int) int { return s.IntN(n) }

type drawn struct{ t *rapid.T }

func (d drawn) roll(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "roll") }

// newWalk returns a cluster with three partitions and two transactional ids whose epochs are nearly
// exhausted. With old set, all clients speak version 1 and the coordinator moves often.
func newWalk(d dice, old bool) *walk {
	w := &walk{dice: d, now: time.UnixMilli(1_000_000), topic: fakeTopics{}, stats: map[string]int{}, pids: 100}
	for i, id := range []string{"x", "y"} {
		v := value{state: Empty, pid: int64(i), previous: none, next: none, epoch: maxEpoch - 3, timeout: 400, start: none}
		w.tlog = append(w.tlog, coordinator.Record{Key: encodeKey(id), Value: v.encode(true)})
		version := int16(2)
		if old || d.roll(4) == 0 {
			version = 1
		}
		w.newClient(id, version)
	}
	for _, topic := range []string{"a", "b", "weak"} {
		w.newPart(topic)
	}
	w.elect()
	return w
}

// run takes steps and then lets everything end. It returns what is wrong.
func (w *walk) run(steps int, old bool) []string {
	for range steps {
		w.step(old)
	}
	w.finish()
	return w.check()
}

func (w *walk) step(old bool) {
	w.now = w.now.Add(time.Millisecond)
	switch x := w.roll(1000); {
	case w.storm && x < 10:
		w.crash(true)
	case w.storm && x < 30:
		w.parts[w.roll(len(w.parts))].crash(true)
	case x < 540:
		w.deliver()
	case x < 620:
		w.syncLog()
	case x < 650:
		p := w.parts[w.roll(len(w.parts))]
		p.durable = len(p.log)
	case x < 880:
		w.prods[w.roll(len(w.prods))].act()
	case x < 950:
		w.anySeat().fire()
	case x < 955:
		w.parts[w.roll(len(w.parts))].giveUp()
	case x < 958 || old && x < 970:
		w.elect()
	case x < 961:
		if p := w.parts[w.roll(len(w.parts))]; w.roll(3) > 0 {
			w.crash(w.roll(2) == 0)
		} else if w.roll(2) == 0 {
			p.crash(w.roll(2) == 0)
		} else {
			p.electUncleanly()
		}
	case x < 964 && len(w.prods) < 6:
		o := w.prods[w.roll(2)]
		w.newClient(o.id, o.version)
	case x < 966 && len(w.parts) < 4:
		w.newPart("new") // brokers know it before the coordinators do
	case x < 972:
		w.anySeat().learn()
	case x < 985 && len(w.late) > 0:
		i := w.roll(len(w.late))
		w.net = append(w.net, w.late[i])
		w.late = append(w.late[:i:i], w.late[i+1:]...)
	}
}

// deliver delivers a message: one of the oldest, or any.
func (w *walk) deliver() {
	if len(w.net) == 0 {
		return
	}
	i := w.roll(min(len(w.net), 4))
	if w.roll(3) == 0 {
		i = w.roll(len(w.net))
	}
	m := w.net[i]
	if !m.safe && len(w.net) < 200 {
		switch w.roll(24) {
		case 0, 1: // comes again
			m.deliver()
			return
		case 2:
			if !m.marker { // a marker always has a result
				w.net = append(w.net[:i:i], w.net[i+1:]...)
				return
			}
		}
	}
	w.net = append(w.net[:i:i], w.net[i+1:]...)
	m.deliver()
}

// finish lets the clients stop and everything that is under way end.
func (w *walk) finish() {
	w.calm = true
	for _, c := range w.prods {
		c.turn("dead")
	}
	w.net, w.late = append(w.net, w.late...), nil
	for range 400 {
		for n := len(w.net); n > 0 && len(w.net) > 0; n-- {
			m := w.net[0]
			w.net = w.net[1:]
			m.deliver()
		}
		w.syncLog()
		w.now = w.now.Add(100 * time.Millisecond)
		w.leader().learn()
		w.leader().fire()
	}
}

// Committed transactions are shown whole and once, nothing else is shown, and everything ends.
func TestWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := rapid.Bool().Draw(t, "old")
		w := newWalk(drawn{t}, old)
		if bad := w.run(rapid.IntRange(100, 1200).Draw(t, "steps"), old); len(bad) > 0 {
			t.Fatalf("%q", bad)
		}
	})
}

// The same, longer and without shrinking.
func TestLongWalks(t *testing.T) {
	total := map[string]int{}
	for seed := range uint64(200) {
		w := newWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, seed%2 == 1)
		if bad := w.run(2500, seed%2 == 1); len(bad) > 0 {
			t.Fatalf("seed %d: %q", seed, bad)
		}
		for k, n := range w.stats {
			total[k] += n
		}
	}
	t.Log(total)
	if total["commits"] < 100 || total["crashes"] < 100 || total["unclean elections"] < 100 {
		t.Errorf("too little happens: %v", total)
	}
}
