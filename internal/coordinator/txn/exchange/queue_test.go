package exchange

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// The goroutine of a queue stays for the next item, until the Exchange is closed.
func TestAGoroutineServesAllItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Options{})
		var served [][]int
		q := newQueue(x, 1, 4, func(items []int) { served = append(served, items) })
		for i := range 3 {
			if !q.add(i) || !q.add(-i) {
				t.Fatal("an item was not added")
			}
			synctest.Wait()
			if q.running != 1 || q.parked != 1 || q.waiting() != 0 {
				t.Errorf("%d runners, %d of them parked, %d items wait", q.running, q.parked, q.waiting())
			}
		}
		if !slices.EqualFunc(served, [][]int{{0, 0}, {1, -1}, {2, -2}}, slices.Equal[[]int]) {
			t.Errorf("served %v", served)
		}
		x.Close()
		if q.add(9) {
			t.Error("an item was added after the end")
		}
	})
}

// An item that is added while the Exchange is closed is served, or refused.
func TestNoItemIsLostAtTheEnd(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			x := New(Options{})
			var served atomic.Int64
			q := newQueue(x, 2, 1000, func(items []int) { served.Add(int64(len(items))) })
			q.add(0)
			synctest.Wait()
			added := int64(1)
			x.stop() // the goroutine that is parked has not seen it
			if q.add(1) {
				added++
			}
			x.Close()
			if n := served.Load(); n != added {
				t.Errorf("%d of %d items were served", n, added)
			}
		})
	}
}
