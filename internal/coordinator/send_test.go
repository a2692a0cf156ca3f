package coordinator

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
)

// A request leaves the machine when everything it could depend on is committed, and its result is
// an event.
func TestSendWaitsUntilRecordsAreCommitted(t *testing.T) {
	var out outbox
	run(t, Options{Send: out.send}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "epoch").want(t, "1", nil)
		log.set(func(l *fakeLog) { l.held = true })
		a := submit(rt, "send x a parked")
		out.want(t)
		b := submit(rt, "send y b")
		out.want(t)
		log.end(nil)
		out.want(t, "1 x")
		log.end(nil)
		a.want(t, "woken", nil)
		b.want(t, "sent y", nil)
		out.want(t, "1 x", "1 y")
		log.set(func(l *fakeLog) { l.held = false })
		wait := submit(rt, "wait")
		synctest.Wait()
		out.answer("news")
		wait.want(t, "woken", nil)
		out.answer("news")
	})
}

// What a machine has decided and could not store never leaves it. The result of a request of an
// earlier machine is no event: its successor asks again.
func TestSendEndsWithItsMachine(t *testing.T) {
	var out outbox
	run(t, Options{Send: out.send}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "send x a").want(t, "sent x", nil)
		log.set(func(l *fakeLog) { l.fail = errDisk })
		submit(rt, "send y b").want(t, "", ErrNotCoordinator)
		log.set(func(l *fakeLog) { l.fail = nil })
		synctest.Wait()
		wait := submit(rt, "wait")
		synctest.Wait()
		out.answer("news") // to x
		wait.want(t, "", nil)
		time.Sleep(firstPause)
		submit(rt, "send z c").want(t, "sent z", nil)
		wait.want(t, "woken", nil)
		out.want(t, "1 x", "1 z")
		rt.Lead(0, 7, log)
		synctest.Wait() // until the state is loaded
		submit(rt, "epoch").want(t, "7", nil)
		rt.Close()
		out.answer("news")
	})
}

// A request whose result comes at once, from the sender's own goroutine.
func TestSendIsAnsweredAtOnce(t *testing.T) {
	run(t, Options{Send: func(_, _ int32, _ any, _ *groupcommit.Batch, done func(any)) { done("news") }},
		func(t *testing.T, rt *Runtime, log *fakeLog) {
			wait := submit(rt, "wait")
			submit(rt, "send x a").want(t, "sent x", nil)
			wait.want(t, "woken", nil)
			submit(rt, "get").want(t, "has a news", nil)
		})
}

// A deferred event waits while the log refuses, and costs no reload. It needs no timer to continue.
func TestDeferredEventWaitsForTheLog(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "defer a").want(t, "deferred", nil)
		submit(rt, "get").want(t, "has a", nil)
		log.set(func(l *fakeLog) { l.shut, l.fail = errFull, errFull })
		submit(rt, "defer b").want(t, "deferred", nil)
		submit(rt, "defer c").want(t, "deferred", nil)
		time.Sleep(time.Minute)
		submit(rt, "get").want(t, "has a", nil)
		log.set(func(l *fakeLog) { l.shut, l.fail = nil, nil })
		time.Sleep(haltCheckInterval)
		synctest.Wait()
		submit(rt, "get").want(t, "has a b c", nil)
		if log.loads != 1 {
			t.Errorf("%d loads", log.loads)
		}
	})
}

// Deferred events respect the bound of the open batch, and end with their machine.
func TestDeferredEventsWaitForAFullBatch(t *testing.T) {
	opt := Options{MaxInFlight: 1, MaxBatchBytes: 2 * recordOverhead}
	run(t, opt, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.held = true })
		first := submit(rt, "x")
		first.want(t, "", nil)
		for _, w := range []string{"a", "b", "c", "d", "e"} {
			submit(rt, "defer "+w)
		}
		synctest.Wait()
		if got := log.sizes(); !slices.Equal(got, []int{1}) {
			t.Fatalf("batches %v", got)
		}
		log.end(nil)
		synctest.Wait()
		log.end(nil)
		synctest.Wait()
		for _, n := range log.sizes() {
			if n > 3 {
				t.Errorf("batches %v", log.sizes())
			}
		}
		log.set(func(l *fakeLog) { l.held = false })
		log.end(nil)
		submit(rt, "get").want(t, "has x a b c d e", nil)
		log.set(func(l *fakeLog) { l.shut, l.fail = errFull, errFull })
		submit(rt, "defer f").want(t, "deferred", nil)
		rt.Lead(0, 2, log)
		log.set(func(l *fakeLog) { l.shut, l.fail = nil, nil })
		time.Sleep(time.Minute)
		submit(rt, "get").want(t, "has x a b c d e", nil)
	})
}

// committer counts how often it is committed.
type committer struct{ n atomic.Int32 }

func (c *committer) Commit(*groupcommit.Batch) { c.n.Add(1) }

// What a request appends is committed soon, and once.
func TestTheBatchOfASendIsRun(t *testing.T) {
	var appended committer
	send := func(_, _ int32, _ any, batch *groupcommit.Batch, done func(any)) {
		batch.Add(&appended)
		if appended.n.Load() != 0 {
			t.Error("the batch has run already")
		}
		done("news")
	}
	run(t, Options{Send: send}, func(t *testing.T, rt *Runtime, _ *fakeLog) {
		submit(rt, "send x a").want(t, "sent x", nil)
		synctest.Wait()
		if n := appended.n.Load(); n != 1 {
			t.Errorf("committed %d times", n)
		}
	})
}
