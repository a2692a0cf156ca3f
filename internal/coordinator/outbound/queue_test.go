package outbound

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The goroutine of a queue stays for the next item, until the Work ends.
func TestAGoroutineServesAllItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWork()
		var served [][]int
		q := NewQueue(w, 1, 4, 1000, func(items []int) { served = append(served, items) })
		for i := range 3 {
			if !q.Add(i) || !q.Add(-i) {
				t.Fatal("an item was not added")
			}
			synctest.Wait()
			if q.running != 1 || q.parked != 1 || q.Waiting() != 0 {
				t.Errorf("%d runners, %d of them parked, %d items wait", q.running, q.parked, q.Waiting())
			}
		}
		// The goroutine may begin before the second item is added.
		if all := slices.Concat(served...); !slices.Equal(all, []int{0, 0, 1, -1, 2, -2}) {
			t.Errorf("served %v", served)
		}
		w.Close()
		if q.Add(9) {
			t.Error("an item was added after the end")
		}
	})
}

// An item that is added while the Work ends is served, or refused.
func TestNoItemIsLostAtTheEnd(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			w := NewWork()
			var served atomic.Int64
			q := NewQueue(w, 2, 1000, 1000, func(items []int) { served.Add(int64(len(items))) })
			q.Add(0)
			synctest.Wait()
			added := int64(1)
			w.stop() // the goroutine that is parked has not seen it
			if q.Add(1) {
				added++
			}
			w.Close()
			if n := served.Load(); n != added {
				t.Errorf("%d of %d items were served", n, added)
			}
		})
	}
}
