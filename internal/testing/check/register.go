package check

import (
	"fmt"
	"sync"
)

// Register is the history of one value that one client writes, with growing numbers, and that
// anybody reads. Its methods may be called concurrently.
//
// A write without an answer may take effect at any later time, even after a write that follows it:
// the request can wait at a broker that is cut off. So a read returns the last acknowledged number,
// or one that was never acknowledged.
type Register struct {
	mu    sync.Mutex
	begun int64 // the last number; the first one is 1
	acked int64
	open  map[int64]bool // begun and not acknowledged
	lost  int64          // numbers up to it may be lost
}

// Begin notes that the client is about to write, and returns the number.
func (r *Register) Begin() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[int64]bool{}
	}
	r.begun++
	r.open[r.begun] = true
	return r.begun
}

// Acked notes that the write of a number was acknowledged.
func (r *Register) Acked(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, n)
	r.acked = max(r.acked, n)
}

// Lose notes that the acknowledged writes so far may be lost: until one is acknowledged again, a
// read may return any earlier number.
func (r *Register) Lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = r.begun
}

// Last returns the last acknowledged number, 0 for none.
func (r *Register) Last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked
}

// Read returns what is wrong with a number that was read while no write was in progress, where 0
// stands for no value; "" if nothing is.
func (r *Register) Read(n int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == r.acked || r.open[n] || r.acked <= r.lost && n <= r.lost {
		return ""
	}
	return fmt.Sprintf("%d was read, %d was acknowledged last, %d was sent last", n, r.acked, r.begun)
}
