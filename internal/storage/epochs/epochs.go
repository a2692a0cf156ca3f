// Package epochs is the leader-epoch cache of a log: at which offset each
// leader's reign began (KIP-101).
//
// It answers where an epoch ended, which is how a follower or a consumer finds
// the point where two histories part. It is a value without locks or files; the
// log that owns it guards it and stores it.
package epochs

import (
	"fmt"
	"slices"
	"sort"
)

// Entry says that the records from Start on were appended under Epoch, up to
// the next entry's Start.
type Entry struct {
	Epoch int32
	Start int64
}

// Cache holds entries with strictly growing epochs and starts that don't shrink.
type Cache struct {
	entries []Entry
}

// Assign notes that records from start on carry epoch. An epoch that is not
// above the latest is no news. Entries that would begin at or after start are
// replaced: nothing was ever appended under them.
func (c *Cache) Assign(epoch int32, start int64) {
	if epoch < 0 || len(c.entries) > 0 && epoch <= c.entries[len(c.entries)-1].Epoch {
		return
	}
	for len(c.entries) > 0 && c.entries[len(c.entries)-1].Start >= start {
		c.entries = c.entries[:len(c.entries)-1]
	}
	c.entries = append(c.entries, Entry{epoch, start})
}

// Latest returns the newest epoch, -1 if there is none.
func (c *Cache) Latest() int32 {
	if len(c.entries) == 0 {
		return -1
	}
	return c.entries[len(c.entries)-1].Epoch
}

// At returns the epoch of the record at an offset, -1 if it isn't known.
func (c *Cache) At(offset int64) int32 {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > offset })
	if i == 0 {
		return -1
	}
	return c.entries[i-1].Epoch
}

// End returns the largest known epoch that is not above epoch, and the offset
// after its last record; logEnd ends the latest epoch. It is (-1, -1) where
// nothing is known: no entries, or epoch is above the latest. An epoch below
// all entries answers with itself and the first entry's start (KIP-279).
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

// CutEnd forgets what begins at or after end: the log was cut there.
func (c *Cache) CutEnd(end int64) {
	for len(c.entries) > 0 && c.entries[len(c.entries)-1].Start >= end {
		c.entries = c.entries[:len(c.entries)-1]
	}
}

// CutStart forgets epochs that ended at or before start: the log begins there now.
func (c *Cache) CutStart(start int64) {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > start })
	if i > 1 {
		c.entries = slices.Delete(c.entries, 0, i-1)
	}
	if i > 0 {
		c.entries[0].Start = max(c.entries[0].Start, start)
	}
}

// Clear forgets everything.
func (c *Cache) Clear() { c.entries = nil }

// Below returns the part of the cache that begins below end.
func (c *Cache) Below(end int64) Cache {
	n := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start >= end })
	return Cache{slices.Clone(c.entries[:n])}
}

// Entries returns a copy.
func (c *Cache) Entries() []Entry { return slices.Clone(c.entries) }

// Of returns the cache with some entries, which it keeps. It fails if Assign cannot have made them.
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
