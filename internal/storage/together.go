package storage

import (
	"sync"
	"sync/atomic"
)

// together is how many logs are made, or synced at a start or a stop, at a time. A
// disk takes the flushes of several files as one; beyond some 16 hot files it gains
// nothing.
const together = 16

// each calls fn for 0 to n-1, several at a time where they are many, and returns
// when all calls have.
func each(n int, fn func(i int)) {
	workers := min(together, n/together)
	if workers < 2 {
		for i := range n {
			fn(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	wg.Wait()
}
