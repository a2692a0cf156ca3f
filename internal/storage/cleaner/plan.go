package cleaner

import "math"

// Segment is what a plan needs to know of a segment that is not the active one.
type Segment struct {
	Base    int64 // its first offset
	Next    int64 // that of the segment after it
	Bytes   int64
	Entries int // of its offset index
	// First is the time of its first batch, Latest the largest in it, ms; they are
	// asked for only where a policy needs them.
	First, Latest func() (int64, error)
}

// Compaction says when a log is compacted. Milliseconds; no lag is 0 or less.
type Compaction struct {
	MinDirty       float64 // min.cleanable.dirty.ratio
	MinLag, MaxLag int64   // min.compaction.lag.ms, max.compaction.lag.ms
}

// Dirt is how much there is to compact.
type Dirt struct {
	Clean, Dirty int64 // bytes in segments
	// From is the first dirty offset, Until the one where what may be compacted ends.
	From, Until int64
	// Overdue: the oldest dirty record is older than the largest lag.
	Overdue bool
	when    Compaction
}

// Ratio is the part that is dirty, 0 to 1.
func (d Dirt) Ratio() float64 {
	if d.Dirty == 0 {
		return 0
	}
	return float64(d.Dirty) / float64(d.Clean+d.Dirty)
}

// Due reports whether a pass is worth it.
func (d Dirt) Due() bool {
	return d.Dirty > 0 && (d.Overdue || d.Ratio() > d.when.MinDirty)
}

// Measure looks at the segments of a log, oldest first and without the active one.
// What lies below from has been compacted; nothing at or above limit may be: a
// segment counts if it ends there or before, and if its records are as old as the
// policy wants.
func Measure(list []Segment, from, limit, now int64, p Compaction) (d Dirt, err error) {
	d = Dirt{From: from, Until: from, when: p}
	oldest := int64(math.MaxInt64)
	for _, s := range list {
		if s.Next <= from {
			d.Clean += s.Bytes
			continue
		}
		if s.Next > limit {
			break
		}
		if p.MinLag > 0 {
			latest, err := s.Latest()
			if err != nil {
				return d, err
			}
			if latest > now-p.MinLag {
				break
			}
		}
		if p.MaxLag > 0 && p.MaxLag < now && !d.Overdue {
			first, err := s.First()
			if err != nil {
				return d, err
			}
			if first > 0 {
				oldest = min(oldest, first)
			}
			d.Overdue = oldest < now-p.MaxLag
		}
		d.Dirty += s.Bytes
		d.Until = s.Next
	}
	return d, nil
}

// Group puts segments, oldest first, into groups that fit into one segment each:
// by bytes, by entries of the index, and by the offsets that an entry can hold. A
// segment that doesn't fit by itself is a group.
func Group(list []Segment, maxBytes int64, maxEntries int) (groups [][]Segment) {
	for len(list) > 0 {
		n, bytes, entries := 1, list[0].Bytes, list[0].Entries
		for n < len(list) {
			s := &list[n]
			bytes += s.Bytes
			entries += s.Entries
			// One entry more: where two of the old ones end, a third may begin.
			if entries++; bytes > maxBytes || entries > maxEntries || s.Next-1-list[0].Base > math.MaxInt32 {
				break
			}
			n++
		}
		groups = append(groups, list[:n:n])
		list = list[n:]
	}
	return groups
}
