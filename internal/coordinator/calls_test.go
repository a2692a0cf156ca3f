package coordinator

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// gated runs a test with machines whose calls wait until the test closes the gate.
func gated(t *testing.T, opt Options, test func(t *testing.T, rt *Runtime, log *fakeLog, gate chan struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		opt.New = func(p int32) Machine {
			m := newTally(p).(*tally)
			m.gate = gate
			return m
		}
		rt, log := NewRuntime(opt), &fakeLog{}
		rt.Lead(0, 1, log)
		rt.Lead(1, 1, &fakeLog{})
		synctest.Wait()
		test(t, rt, log, gate)
		rt.Close()
	})
}

// onePlace returns places of which one is free.
func onePlace(t *testing.T) *share.Places {
	t.Helper()
	s := share.New()
	for range share.Half() - 1 {
		must.OK(t, s.Of(share.Batches).Take(t.Context(), nil, netip.Prefix{}))
	}
	return s.Of(share.Calls)
}

// A call does not block other requests, and its result is an event of the waiting request.
func TestACallDoesNotBlockOthers(t *testing.T) {
	gated(t, Options{Places: onePlace(t)}, func(t *testing.T, rt *Runtime, log *fakeLog, gate chan struct{}) {
		a := submit(rt, "call a")
		a.want(t, "", nil) // it has the place
		b := submit(rt, "call b")
		submit(rt, "x").want(t, "1", nil)
		submit(rt, "get").want(t, "has x", nil)
		gate <- struct{}{}
		a.want(t, "called a", nil)
		b.want(t, "", nil)
		close(gate)
		b.want(t, "called b", nil)
		submit(rt, "get").want(t, "has x a b", nil)
	})
}

// The number of concurrent calls is bounded over all shards.
func TestCallsOfAllShardsAreBounded(t *testing.T) {
	gated(t, Options{Places: onePlace(t)}, func(t *testing.T, rt *Runtime, log *fakeLog, gate chan struct{}) {
		a := submit(rt, "call a")
		a.want(t, "", nil)
		if n := rt.opt.Places.Held(); n != 1 {
			t.Errorf("%d places are held", n)
		}
		other := &result{}
		rt.Submit(1, "call b", other.done)
		other.want(t, "", nil)
		close(gate)
		a.want(t, "called a", nil)
		other.want(t, "called b", nil)
	})
}

// Each call that takes long delays others by about a slice: those of the same shard, and those of
// others.
func TestLongCallsLeaveOthersTheirTurn(t *testing.T) {
	gated(t, Options{Places: onePlace(t)}, func(t *testing.T, rt *Runtime, log *fakeLog, gate chan struct{}) {
		var long []*result
		for i := range 20 {
			r := &result{}
			rt.Submit(int32(i%2), fmt.Sprint("compute ", i), r.done)
			long = append(long, r)
		}
		synctest.Wait()
		for p := range int32(2) {
			r, began := &result{}, time.Now()
			rt.Submit(p, "quick q", r.done)
			for !r.answered() {
				if time.Since(began) > 2*20*slice {
					t.Fatalf("a call of partition %d waits for %v", p, time.Since(began))
				}
				time.Sleep(time.Millisecond)
			}
			if n := rt.opt.Places.Held(); n > 1 {
				t.Errorf("%d places are held", n)
			}
		}
		close(gate)
		time.Sleep(time.Second)
		for i, r := range long {
			r.want(t, fmt.Sprint("called ", i), nil)
		}
	})
}

// A call ends when its client is gone, and so do those that wait for their turn.
func TestCallsEndWithTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := context.WithCancel(t.Context())
		rt := NewRuntime(Options{Places: onePlace(t), New: func(p int32) Machine {
			m := newTally(p).(*tally)
			m.client = client
			return m
		}})
		defer rt.Close()
		rt.Lead(0, 1, &fakeLog{})
		synctest.Wait()
		var long []*result
		for range 5 {
			long = append(long, submit(rt, "compute x"))
		}
		time.Sleep(10 * slice)
		for _, r := range long {
			r.want(t, "", nil)
		}
		leave()
		time.Sleep(time.Second)
		for _, r := range long {
			r.want(t, "called x", nil)
		}
		if n := rt.opt.Places.Held(); n != 0 {
			t.Errorf("%d places are held", n)
		}
	})
}

// The result of a call is refused like any event that writes, and a call ends with its machine.
func TestCallResultIsRefused(t *testing.T) {
	gated(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog, gate chan struct{}) {
		a := submit(rt, "call a")
		a.want(t, "", nil)
		log.set(func(l *fakeLog) { l.shut = errFull })
		close(gate)
		a.want(t, "", ErrRefused)
		log.set(func(l *fakeLog) { l.shut = nil })
		submit(rt, "get").want(t, "has ", nil)
	})
	gated(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog, gate chan struct{}) {
		a, b := submit(rt, "call a"), submit(rt, "call b")
		a.want(t, "", nil)
		rt.Lead(0, 2, log)
		a.want(t, "", ErrNotCoordinator)
		b.want(t, "", ErrNotCoordinator)
		c := submit(rt, "call c")
		synctest.Wait()
		time.Sleep(time.Second)
		close(gate)
		c.want(t, "called c", nil)
		submit(rt, "get").want(t, "has c", nil)
	})
	gated(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog, gate chan struct{}) {
		a := submit(rt, "call a")
		a.want(t, "", nil)
		rt.Close()
		a.want(t, "", ErrNotCoordinator)
	})
}
