package shareleader

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// handedOver is a leadership that is given up on purpose: what the former leader knows is stored.
func handedOver(w *world) string {
	w.put(4, false)
	a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
	got := a.fetch(10)
	release := w.hold(sharetest.Write)
	accepted := a.ack(0, 0, window.Accept)
	released := a.ack(1, 1, window.Release)
	w.elect(1, false, 0)
	w.notify(w.brokers[0])
	synctest.Wait()
	late, none := a.ack(2, 2, window.Accept), show(b.fetch(10))
	release()
	synctest.Wait()
	return differ(show(got), "0-3:1", accepted, "ok", released, "ok", late, kerr.NotLeaderForPartition.Message, none, "",
		show(w.join(w.leader(), "a").fetch(10)), "1-3:2")
}

func TestAFormerLeaderStoresWhatItKnows(t *testing.T) { check(t, 2, handedOver) }

func TestAPlannedStopStoresDeliveries(t *testing.T) {
	check(t, 2, func(w *world) string {
		w.put(3, false)
		old := w.leader()
		a, b := w.join(old, "a"), w.join(old, "b")
		got := a.fetch(10)
		old.Release(context.Background())
		w.put(1, false)
		none, accepted := show(b.fetch(10)), a.ack(0, 0, window.Accept)
		synctest.Wait()
		w.elect(1, false, 0)
		count := show(w.join(w.leader(), "a").fetch(10))
		// A coordinator that is not reached does not hold up the stop.
		w.desk.Deliver(func(_ sharetest.Kind, do, _, lose func()) { lose() })
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		begun := time.Now()
		w.leader().Release(ctx)
		took := time.Since(begun)
		w.desk.Deliver(nil)
		return differ(show(got), "0-2:1", none, "", accepted, "ok", count, "1-2:2 3-3:1", took, 2*time.Second)
	})
}

// Planned stops count deliveries that are not over, but they do not use up the last one.
func TestPlannedStopsArchiveNothing(t *testing.T) {
	check(t, 2, func(w *world) string {
		w.put(1, false)
		var got string
		for i := range 7 {
			a := w.join(w.leader(), "a")
			got = show(a.fetch(10))
			w.leader().Release(context.Background())
			w.elect(int32(1-i%2), false, 0)
			w.notify(w.brokers[i%2])
			w.brokers[i%2].closing.Store(false) // it is started again
			synctest.Wait()
		}
		a := w.join(w.leader(), "a")
		last := show(a.fetch(10))
		return differ(got, "0-0:5", last, "0-0:5", a.ack(0, 0, window.Release), "ok", show(a.fetch(10)), "")
	})
}

// A leader that loses its leadership and gets it back at once loads when its last write is over.
func TestAFormerLeaderThatCannotWriteGivesUp(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(1, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(10)
		w.desk.Deliver(func(k sharetest.Kind, do, _, lose func()) {
			if k == sharetest.Write {
				lose()
				return
			}
			do()
		})
		accepted := a.ack(0, 0, window.Accept)
		v := w.leader().view
		v.mu.Lock()
		v.leader = -1 // in the same epoch
		v.mu.Unlock()
		w.leader().ring(w)
		synctest.Wait()
		v.mu.Lock()
		v.leader = 0
		v.mu.Unlock()
		f := a.begin(1, nil)
		synctest.Wait()
		before := fmt.Sprint(f.err, show(f.taken))
		time.Sleep(2 * writeTime)
		return differ(show(got), "0-0:1", before, fmt.Sprint(kerr.NotLeaderForPartition), accepted, kerr.NotLeaderForPartition.Message,
			show(a.fetch(10)), "0-0:1")
	})
}

// busy is a fetch that has taken its turn, and waits for something else than records.
func busy(w *world) string {
	a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
	w.put(1, false)
	synctest.Wait()
	first := &fetch{c: a, most: 1, cut: 4, busy: true}
	first.queued = a.partition().Join(first)
	synctest.Wait()
	_, turn, _ := first.queued.Turn(1)
	next := b.begin(1, nil)
	synctest.Wait()
	before := show(next.taken)
	first.queued.Away()
	synctest.Wait()
	passed := show(next.taken)
	third := b.begin(1, nil)
	first.mu.Lock()
	first.busy = false
	first.mu.Unlock()
	first.Try()
	w.put(1, false)
	synctest.Wait()
	defer third.stop()
	return differ(fmt.Sprint(turn), "true", before, "", passed, "0-0:1", show(first.taken), "1-1:1", show(third.taken), "")
}

func TestAFetchThatCannotUseItsTurnIsPassed(t *testing.T) { check(t, 1, busy) }

// A fetch that is satisfied with less gets it although one that waits longer wants more.
func TestAFetchThatWantsMoreIsPassed(t *testing.T) {
	check(t, 1, func(w *world) string {
		a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
		synctest.Wait()
		first := &greedy{fetch: fetch{c: a, most: 1, cut: 4}}
		p := a.partition()
		synctest.Wait()
		first.queued = p.Join(first)
		first.Try()
		w.put(1, false)
		synctest.Wait()
		return differ(show(b.fetch(1)), "0-0:1")
	})
}

// greedy waits for more bytes than there are.
type greedy struct{ fetch }

func (g *greedy) Try() {
	if _, ok, _ := g.queued.Turn(1); ok {
		g.queued.End()
	}
}
