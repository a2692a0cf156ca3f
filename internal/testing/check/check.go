// Package check judges what the clients of one replicated partition saw, and what its replicas
// store at the end. It belongs to tests only.
package check

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
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
	acked     []fact
	read      map[int64]fact
	changed   []change
	unclean   []loss
	agreed    time.Time       // the last time at which all brokers knew of all elections
	high      map[int32]int64 // the last high watermark of each leader epoch
	deleting  int64           // offsets below it were deleted, or may be
	deleted   int64           // the deletion below it was acknowledged
	known     int64           // the offset after the last one that was acknowledged or read
	key       func(value string) string
	problems  []string
}

// fact is a record that a client saw at a time: the first one, if it saw it repeatedly.
type fact struct {
	Record
	at time.Time
}

// change is an offset that was read with two values.
type change struct{ was, is fact }

// loss is an unclean election. What is older than since has survived it.
type loss struct {
	epoch     int32
	since, at time.Time
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{attempted: map[string]bool{}, loose: map[string]bool{}, read: map[int64]fact{}, high: map[int32]int64{}}
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

// Compacts says that compaction may remove a value when a later one has the same key. It must be
// called before all other methods.
func (h *History) Compacts(key func(value string) string) { h.key = key }

// Deleting notes that a client is about to delete the records below an offset. The result must be
// called when the deletion is acknowledged: from then on, none of them is there.
func (h *History) Deleting(below int64) (acked func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deleting = max(h.deleting, below)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.deleted = max(h.deleted, below)
	}
}

// MayStart reports whether a replica's log may start at an offset.
func (h *History) MayStart(offset int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return offset <= h.deleting
}

// Known returns the offset after the last one that was acknowledged or read.
func (h *History) Known() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known
}

// OutOfRange notes that a broker refused a fetch from an offset as out of range. known is the
// result of Known before the fetch.
func (h *History) OutOfRange(offset, known int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deleting <= offset && offset <= known && len(h.unclean) == 0 {
		h.problems = append(h.problems, fmt.Sprintf("out of range: a fetch from offset %d was refused, of a log that has [%d, %d)", offset,
			h.deleting, known))
	}
}

// Acked notes that a value was acknowledged at an offset, with acks=all. The offset is -1 if the
// acknowledgement does not name it.
func (h *History) Acked(offset int64, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = append(h.acked, fact{Record{Offset: offset, Value: value}, time.Now()})
	h.known = max(h.known, offset+1)
}

// Read notes that a consumer read a record.
func (h *History) Read(r Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := fact{r, time.Now()}
	before, ok := h.read[r.Offset]
	if ok && before.Record == r {
		return
	}
	if ok {
		h.changed = append(h.changed, change{before, now})
	}
	h.read[r.Offset] = now
	h.known = max(h.known, r.Offset+1)
}

// Unclean notes that a leader epoch has just begun with an unclean election. Records of earlier
// epochs may be lost, unless they were acknowledged before a time. The zero time means that all of
// them may.
func (h *History) Unclean(epoch int32, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unclean = append(h.unclean, loss{epoch, since, time.Now()})
}

// Agreed notes that all brokers know of all elections.
func (h *History) Agreed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.agreed = time.Now()
}

// mayLose reports whether an acknowledged record may be lost. Caller holds mu.
func (h *History) mayLose(f fact) bool {
	for _, l := range h.unclean {
		if !f.at.Before(l.since) && !f.at.After(l.at) {
			return true
		}
	}
	return false
}

// mayVanish reports whether a record that was read may be replaced by what was read later: by one
// of the epoch of an unclean election or a later one, or by one of an earlier epoch that only the
// replica had which was elected. A leader that was cut off does not know of the election, and
// serves records of its epoch until it does. What the log has at the end was read at no time; kept
// states that the log has the later record at the end, so that only the earlier one may have come
// from such a leader. Caller holds mu.
func (h *History) mayVanish(f, by fact, kept bool) bool {
	final, last := by.at.IsZero(), by.at
	if final || kept {
		last = f.at
	}
	for _, l := range h.unclean {
		between := f.at.Before(l.at) && (final || !by.at.Before(l.at))
		both := f.Epoch != by.Epoch && !f.at.Before(l.at) && (h.agreed.Before(l.at) || last.Before(h.agreed))
		if !f.at.Before(l.since) && min(f.Epoch, by.Epoch) < l.epoch && (between || both || l.epoch <= max(f.Epoch, by.Epoch)) {
			return true
		}
	}
	return false
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
//	returned     a record below an offset up to which records were deleted
//	out of range an offset that was refused although the log had it
//
// What Unclean excuses is not lost, vanished, changed, returned or out of range; what was deleted,
// or has a later record with its key in a compacted log, is neither lost nor vanished.
func (h *History) Problems(final []Record) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	problems := append([]string(nil), h.problems...)
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, c := range h.changed {
		if !h.mayVanish(c.was, c.is, slices.Contains(final, c.is.Record)) {
			report("changed: offset %d was %q of epoch %d and then %q of epoch %d", c.is.Offset, c.was.Value, c.was.Epoch, c.is.Value,
				c.is.Epoch)
		}
	}
	at, values, epochs := map[int64]string{}, map[string]int64{}, map[int64]int32{}
	for i, r := range final {
		if i > 0 && (r.Offset <= final[i-1].Offset || r.Epoch < final[i-1].Epoch) {
			report("order: offset %d of epoch %d follows offset %d of epoch %d", r.Offset, r.Epoch, final[i-1].Offset, final[i-1].Epoch)
		}
		if other, twice := values[r.Value]; twice && !h.loose[r.Value] {
			report("duplicate: %q is at offset %d of epoch %d and at %d of epoch %d", r.Value, other, epochs[other], r.Offset, r.Epoch)
		}
		if !h.attempted[r.Value] {
			report("phantom: %q at offset %d was never sent", r.Value, r.Offset)
		}
		if r.Offset < h.deleted && len(h.unclean) == 0 {
			report("returned: %q is at offset %d, and the records below %d were deleted", r.Value, r.Offset, h.deleted)
		}
		at[r.Offset], values[r.Value], epochs[r.Offset] = r.Value, r.Offset, r.Epoch
	}
	removed := h.removed(final)
	for _, r := range h.acked {
		if _, stored := values[r.Value]; r.Offset < 0 && stored {
			continue
		}
		if at[r.Offset] != r.Value && !h.mayLose(r) && !removed(r.Record, at[r.Offset]) {
			report("lost: %q was acknowledged at offset %d, which has %q", r.Value, r.Offset, at[r.Offset])
		}
	}
	for offset, r := range h.read {
		if at[offset] == r.Value || removed(r.Record, at[offset]) {
			continue
		}
		by, ok := epochs[offset]
		if !ok {
			by = math.MaxInt32 // the log ends below it
		}
		if !h.mayVanish(r, fact{Record: Record{Epoch: by}}, false) {
			report("vanished: %q was read at offset %d, which has %q", r.Value, offset, at[offset])
		}
	}
	return problems
}

// removed returns a function that reports whether a record may be missing, without another one in
// its place, because it was deleted or compacted. Caller holds mu.
func (h *History) removed(final []Record) func(r Record, instead string) bool {
	last := map[string]int64{}
	for _, r := range final {
		if h.key != nil {
			last[h.key(r.Value)] = r.Offset
		}
	}
	return func(r Record, instead string) bool {
		switch {
		case instead != "":
			return false
		case 0 <= r.Offset && r.Offset < h.deleting:
			return true
		}
		return h.key != nil && last[h.key(r.Value)] > r.Offset
	}
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
