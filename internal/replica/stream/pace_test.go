package stream

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/replica"
)

// Thousands of subscriptions wait for the disk when a broker returns. They are served in their
// order, without those that have ended, and those whose copies are limited wait without delaying
// the others.
func TestSubscriptionsWaitForTheDiskInTheirOrder(t *testing.T) {
	limited := map[*replica.Partition]bool{}
	s := &Streams{opt: Options{Window: 1 << 20, CopyRates: func(p *replica.Partition, _ int32) (leader, copies int64) {
		if limited[p] {
			leader = 1 << 20
		}
		return leader, 0
	}}}
	o := &outgoing{s: s, conn: &end{}}
	begin := time.Now()
	s.copies.add(1 << 20) // a second's worth
	s.copies.at = begin
	var free, late []*sub
	for i := range 5 * coldWindow {
		b := &sub{part: &part{p: &replica.Partition{}}, ended: i%7 == 3}
		o.toRead = append(o.toRead, b)
		switch {
		case b.ended:
		case i < 2*coldWindow || i == 4*coldWindow:
			limited[b.part.p] = true
			late = append(late, b)
		default:
			free = append(free, b)
		}
	}
	next := func(now time.Time, want *sub) time.Duration {
		t.Helper()
		b, wait := o.takeCold(now)
		if b != want {
			t.Fatalf("another subscription; %d wait", len(o.toRead))
		}
		return wait
	}
	for _, b := range free {
		next(begin, b)
	}
	if wait := next(begin, nil); wait <= 0 || wait > maxPause {
		t.Errorf("the limited ones wait for %v", wait)
	}
	o.coldUsed = s.opt.Window / 4
	if wait := next(begin.Add(time.Hour), nil); wait != 0 {
		t.Errorf("waits for %v, and not for the window", wait)
	}
	o.coldUsed = 0
	for _, b := range late {
		next(begin.Add(time.Hour), b)
	}
	if next(begin.Add(time.Hour), nil); len(o.toRead) > 0 {
		t.Errorf("%d that have ended are left", len(o.toRead))
	}
}

// However often high watermarks move, the connection's goroutine is woken once for each HW frame
// that may be sent, and for the last move, too.
func TestHighWatermarksWakeOnceInAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h highPace
		var woken atomic.Int64
		var pending atomic.Bool
		h.init(func() { woken.Add(1); pending.Store(!h.begin()) })
		defer h.timer.Stop()
		const moves = 1000
		for range moves {
			h.moved()
			time.Sleep(highInterval / 100)
			synctest.Wait()
		}
		if n := woken.Load(); n > moves/100+1 || n < moves/100-1 {
			t.Errorf("woken %d times in %v", n, moves/100*highInterval)
		}
		before := woken.Load()
		h.moved()
		time.Sleep(highInterval)
		synctest.Wait()
		if n := woken.Load(); n == before || pending.Load() {
			t.Errorf("nothing was sent after the last move: woken %d times, pending: %v", n-before, pending.Load())
		}
	})
}
