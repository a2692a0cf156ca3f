// Package check judges what the clients of one replicated partition saw, and what its replicas
// store at the end. It belongs to tests only.
package check

import (
	"fmt"
	"sync"
)

// Record is one record of a log. Tests give each record another value.
type Record struct {
	Offset int64
	Epoch  int32 // leader epoch
	Value  string
}

// History is what clients saw. Its methods may be called concurrently.
type History struct {
	mu        sync.Mutex
	attempted map[string]bool
	loose     map[string]bool
	acked     []Record
	read      map[int64]string
	high      map[int32]int64 // the last high watermark of each leader epoch
	problems  []string
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{attempted: map[string]bool{}, loose: map[string]bool{}, read: map[int64]string{}, high: map[int32]int64{}}
}

// Attempted notes that a producer is about to send a value.
func (h *History) Attempted(value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempted[value] = true
}

// Loose notes that a producer is about to send a value without asking for acks=all and exactly one
// copy: it may be lost, and stored several times.
func (h *History) Loose(value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempted[value], h.loose[value] = true, true
}

// Acked notes that a value was acknowledged at an offset, with acks=all. The offset is -1 if the
// acknowledgement does not name it.
func (h *History) Acked(offset int64, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = append(h.acked, Record{Offset: offset, Value: value})
}

// Read notes that a consumer read a value at an offset.
func (h *History) Read(offset int64, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.read[offset]; ok && before != value {
		h.problems = append(h.problems, fmt.Sprintf("changed: offset %d was %q and then %q", offset, before, value))
	}
	h.read[offset] = value
}

// High notes the high watermark that a leader showed in a leader epoch.
func (h *History) High(epoch int32, high int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if high < h.high[epoch] {
		h.problems = append(h.problems, fmt.Sprintf("high watermark: it fell from %d to %d in epoch %d", h.high[epoch], high, epoch))
	}
	h.high[epoch] = high
}

// Problems returns what contradicts the promise, where final are the committed records of the log
// when all brokers are back:
//
//	lost         an acknowledged value is missing, or is at another offset
//	vanished     a value that was read is missing, or is at another offset
//	phantom      a value that no client sent
//	duplicate    a value stored twice
//	order        offsets or leader epochs that decrease
//	changed      an offset that was read with two values
//	high watermark  one that fell while a leader led
func (h *History) Problems(final []Record) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	problems := append([]string(nil), h.problems...)
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	at, values := map[int64]string{}, map[string]int64{}
	for i, r := range final {
		if i > 0 && (r.Offset <= final[i-1].Offset || r.Epoch < final[i-1].Epoch) {
			report("order: offset %d of epoch %d follows offset %d of epoch %d", r.Offset, r.Epoch, final[i-1].Offset, final[i-1].Epoch)
		}
		if other, twice := values[r.Value]; twice && !h.loose[r.Value] {
			report("duplicate: %q is at offsets %d and %d", r.Value, other, r.Offset)
		}
		if !h.attempted[r.Value] {
			report("phantom: %q at offset %d was never sent", r.Value, r.Offset)
		}
		at[r.Offset], values[r.Value] = r.Value, r.Offset
	}
	for _, r := range h.acked {
		if _, stored := values[r.Value]; r.Offset < 0 && stored {
			continue
		}
		if at[r.Offset] != r.Value {
			report("lost: %q was acknowledged at offset %d, which has %q", r.Value, r.Offset, at[r.Offset])
		}
	}
	for offset, value := range h.read {
		if at[offset] != value {
			report("vanished: %q was read at offset %d, which has %q", value, offset, at[offset])
		}
	}
	return problems
}

// Replicas returns where two logs differ although they must not: if both have a record with the
// same offset and leader epoch, they are equal up to there, apart from records that compaction
// removed from one of them.
func Replicas(a, b []Record) (problems []string) {
	other := make(map[int64]Record, len(b))
	for _, r := range b {
		other[r.Offset] = r
	}
	agree := int64(-1)
	for _, r := range a {
		if x, ok := other[r.Offset]; ok && x.Epoch == r.Epoch {
			agree = max(agree, r.Offset)
		}
	}
	for _, r := range a {
		if x, ok := other[r.Offset]; ok && r.Offset <= agree && x != r {
			problems = append(problems, fmt.Sprintf("replicas differ: offset %d is %q of epoch %d and %q of epoch %d, and they agree at %d",
				r.Offset, r.Value, r.Epoch, x.Value, x.Epoch, agree))
		}
	}
	return problems
}
