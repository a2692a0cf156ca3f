// Package epochs is the leader-epoch cache of a log: the start offset of each leader epoch
// (KIP-101).
//
// It returns the end offset of an epoch, with which a follower or a consumer finds the offset where
// two logs diverge. The epochs of a Cache always grow, and their start offsets never decrease. A
// Cache is a value without locks or files; the log that owns it guards and stores it.
package epochs

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Entry records that the records from Start up to the next entry's Start were appended in Epoch.
type Entry struct {
	Epoch int32
	Start int64
}

// Cache holds entries with increasing epochs and non-decreasing starts.
type Cache struct {
	entries []Entry
}

// Assign records that the records from start on have an epoch. It ignores an epoch that is not
// above the latest. It replaces entries that begin at or after start, since nothing was appended in
// their epochs.
func (c *Cache) Assign(epoch int32, start int64) {
	if epoch < 0 || len(c.entries) > 0 && epoch <= c.entries[len(c.entries)-1].Epoch {
		return
	}
	for len(c.entries) > 0 && c.entries[len(c.entries)-1].Start >= start {
		c.entries = c.entries[:len(c.entries)-1]
	}
	c.entries = append(c.entries, Entry{epoch, start})
}

// Latest returns the latest epoch, -1 if there is none.
func (c *Cache) Latest() int32 {
	if len(c.entries) == 0 {
		return -1
	}
	return c.entries[len(c.entries)-1].Epoch
}

// At returns the epoch of the record at an offset, -1 if it is unknown.
func (c *Cache) At(offset int64) int32 {
	epoch, _ := c.Begins(offset)
	return epoch
}

// Begins returns the epoch of the record at an offset, -1 if it is unknown, and reports whether the
// epoch begins there.
func (c *Cache) Begins(offset int64) (epoch int32, begins bool) {
	i := c.after(offset)
	if i == 0 {
		return -1, false
	}
	return c.entries[i-1].Epoch, c.entries[i-1].Start == offset
}

// After returns where the first epoch that begins after an offset begins, MaxInt64 if none does.
func (c *Cache) After(offset int64) int64 {
	if i := c.after(offset); i < len(c.entries) {
		return c.entries[i].Start
	}
	return math.MaxInt64
}

// after returns the index of the first entry that begins after an offset.
func (c *Cache) after(offset int64) int {
	return sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > offset })
}

// End returns the largest known epoch that is not above epoch, and the offset after its last
// record; the latest epoch ends at logEnd. It returns (-1, -1) if there are no entries or epoch is
// above the latest. For an epoch below all entries it returns that epoch and the first entry's
// start (KIP-279), which may be below the log's.
func (c *Cache) End(epoch int32, logEnd int64) (int32, int64) {
	if len(c.entries) == 0 || epoch < 0 || epoch > c.Latest() {
		return -1, -1
	}
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Epoch > epoch })
	switch {
	case i == len(c.entries):
		return c.Latest(), logEnd
	case i == 0:
		return epoch, c.entries[0].Start
	default:
		return c.entries[i-1].Epoch, c.entries[i].Start
	}
}

// Common returns below which offset two logs have the same records: where the latest epoch ends
// that both have, in the log that has fewer of its records. It is MaxInt64 if that is the latest
// one of both, as a cache does not know the ends of logs. It reports false if they have no epoch in
// common (KIP-101).
func (c *Cache) Common(other *Cache) (end int64, ok bool) {
	for i, e := range slices.Backward(other.entries) {
		if end, ok := c.Ends(e.Epoch); ok {
			return min(end, other.end(i)), true
		}
	}
	return 0, false
}

// Ends returns where an epoch ends, MaxInt64 for the latest one. It reports false if the cache does
// not have the epoch. Unlike End it takes no other epoch for it.
func (c *Cache) Ends(epoch int32) (end int64, ok bool) {
	if i := c.index(epoch); i < len(c.entries) && c.entries[i].Epoch == epoch {
		return c.end(i), true
	}
	return 0, false
}

// end returns where the epoch of an entry ends, MaxInt64 for the latest one.
func (c *Cache) end(i int) int64 {
	if i+1 < len(c.entries) {
		return c.entries[i+1].Start
	}
	return math.MaxInt64
}

// index returns the index of the first entry with an epoch or a later one.
func (c *Cache) index(epoch int32) int {
	return sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Epoch >= epoch })
}

// CutEnd removes the epochs that begin at or after end, because the log was truncated there.
func (c *Cache) CutEnd(end int64) {
	for len(c.entries) > 0 && c.entries[len(c.entries)-1].Start >= end {
		c.entries = c.entries[:len(c.entries)-1]
	}
}

// CutStart removes the epochs that end below start, because the log begins there now. The epoch of
// the record before start stays, and begins below the log then: a log whose records are all deleted
// is compared with other logs by the epoch of the last one.
func (c *Cache) CutStart(start int64) {
	n := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start >= start })
	if n > 1 {
		c.entries = slices.Delete(c.entries, 0, n-1)
	}
}

// Clear removes all epochs.
func (c *Cache) Clear() { c.entries = nil }

// Latter returns a cache with the last n epochs. It is independent of this one.
func (c *Cache) Latter(n int) Cache {
	return Cache{slices.Clone(c.entries[max(0, len(c.entries)-n):])}
}

// Len returns the number of entries.
func (c *Cache) Len() int { return len(c.entries) }

// Below returns a cache with the epochs that begin below end.
func (c *Cache) Below(end int64) Cache {
	n := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start >= end })
	return Cache{slices.Clone(c.entries[:n])}
}

// Until returns a cache with the epochs up to one. It is independent of this one.
func (c *Cache) Until(epoch int32) Cache {
	n := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Epoch > epoch })
	return Cache{slices.Clone(c.entries[:n])}
}

// Within returns a cache with the epochs of the offsets from start up to end. It is independent of
// this one.
func (c *Cache) Within(start, end int64) Cache {
	below := c.Below(end)
	i := max(below.after(start)-1, 0)
	return Cache{slices.Clone(below.entries[i:])}
}

// Has reports whether an offset from start up to end has an epoch.
func (c *Cache) Has(epoch int32, start, end int64) bool {
	return slices.ContainsFunc(c.Within(start, end).entries, func(e Entry) bool { return e.Epoch == epoch }) && start < end
}

// Entries returns a copy of the entries.
func (c *Cache) Entries() []Entry { return slices.Clone(c.entries) }

// Of returns a cache that takes ownership of entries. It fails if Assign could not have produced
// them.
func Of(entries []Entry) (Cache, error) {
	last := Entry{Epoch: -1}
	for _, e := range entries {
		if e.Epoch <= last.Epoch || e.Start < last.Start {
			return Cache{}, fmt.Errorf("leader epoch %d at offset %d follows epoch %d at %d", e.Epoch, e.Start, last.Epoch, last.Start)
		}
		last = e
	}
	return Cache{entries}, nil
}
