package load

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
)

// Limits of a ledger: two bits for each record.
const (
	// MaxLedger is the number of records that a ledger can distinguish: 256 MiB.
	MaxLedger = 1 << 30
)

// ErrLedger is returned if a run sends more records than a ledger holds.
var ErrLedger = errors.New("verify: more records than fit into the ledger")

// Ledger records which records of a run were sent and acknowledged, and which were found in the
// topic afterwards, in bitmaps per worker.
type Ledger struct {
	run     uint64
	workers []*Account
	// foreign counts records in the topic that are not of the run.
	foreign int64
}

// NewLedger returns a ledger for the records of a run with that many workers.
func NewLedger(run uint64, workers int) *Ledger {
	l := &Ledger{run: run}
	for range workers {
		l.workers = append(l.workers, &Account{bound: MaxLedger / uint64(workers)})
	}
	return l
}

// Account is the part of one worker.
type Account struct {
	bound uint64

	mu         sync.Mutex
	sent       uint64
	acked      bitmap
	found      bitmap
	duplicates int64
}

// Worker returns the account of worker i.
func (l *Ledger) Worker(i int) *Account { return l.workers[i] }

// Send returns the next sequence number; ErrLedger if the account is full.
func (a *Account) Send() (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent >= a.bound {
		return 0, fmt.Errorf("%w: %d by one worker", ErrLedger, a.bound)
	}
	a.sent++
	return a.sent - 1, nil
}

// Acked records that a record was acknowledged.
func (a *Account) Acked(sequence uint64) {
	a.mu.Lock()
	a.acked.set(sequence)
	a.mu.Unlock()
}

// Found records a value read from the topic. One goroutine uses it, after the workers have ended.
func (l *Ledger) Found(value []byte) {
	s, ok := ReadStamp(value)
	if !ok || s.Run != l.run || int(s.Worker) >= len(l.workers) || s.Sequence >= l.workers[s.Worker].sent {
		l.foreign++
		return
	}
	a := l.workers[s.Worker]
	if a.found.set(s.Sequence) {
		a.duplicates++
	}
}

// Count compares the acknowledged records with those that were found.
type Count struct {
	Sent, Acknowledged, Found, Lost, Duplicated, Foreign int64
}

// Count returns the comparison.
func (l *Ledger) Count() Count {
	c := Count{Foreign: l.foreign}
	for _, a := range l.workers {
		a.mu.Lock()
		c.Sent += int64(a.sent)
		for i := range max(len(a.acked), len(a.found)) {
			acked, found := a.acked.word(i), a.found.word(i)
			c.Acknowledged += int64(bits.OnesCount64(acked))
			c.Found += int64(bits.OnesCount64(found))
			c.Lost += int64(bits.OnesCount64(acked &^ found))
		}
		c.Duplicated += a.duplicates
		c.Found += a.duplicates
		a.mu.Unlock()
	}
	return c
}

// Acknowledged returns the number of records acknowledged so far.
func (l *Ledger) Acknowledged() int64 { return l.Count().Acknowledged }

// bitmap grows as bits are set.
type bitmap []uint64

// set sets a bit and reports whether it was set before.
func (b *bitmap) set(i uint64) bool {
	at, bit := int(i/64), uint64(1)<<(i%64)
	if at >= len(*b) {
		*b = append(*b, make([]uint64, at+1-len(*b))...)
	}
	was := (*b)[at]&bit != 0
	(*b)[at] |= bit
	return was
}

// word returns the i-th 64 bits.
func (b bitmap) word(i int) uint64 {
	if i >= len(b) {
		return 0
	}
	return b[i]
}
