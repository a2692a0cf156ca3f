package cleaner

import "math"

// Segment describes a segment other than the active one.
type Segment struct {
	Base    int64 // first offset
	Next    int64 // first offset of the next segment
	Bytes   int64
	Entries int // of the offset index
	// First returns the time of the first batch, Latest the largest timestamp, both in ms. They are
	// called only if the policy needs them.
	First, Latest func() (int64, error)
}

// Compaction is the policy for when a log is compacted. Lags are in milliseconds; 0 or less means
// none.
type Compaction struct {
	MinDirty       float64 // min.cleanable.dirty.ratio
	MinLag, MaxLag int64   // min.compaction.lag.ms, max.compaction.lag.ms
}

// Dirt is the amount of data to compact.
type Dirt struct {
	Clean, Dirty int64 // bytes in segments
	// From is the first dirty offset. Until is the end of what may be compacted.
	From, Until int64
	// Overdue is true if the oldest dirty record is older than the maximum lag.
	Overdue bool
	when    Compaction
}

// Ratio returns the dirty part of the data, 0 to 1.
func (d Dirt) Ratio() float64 {
	if d.Dirty == 0 {
		return 0
	}
	return float64(d.Dirty) / float64(d.Clean+d.Dirty)
}

// Due reports whether a pass should run.
func (d Dirt) Due() bool {
	return d.Dirty > 0 && (d.Overdue || d.Ratio() > d.when.MinDirty)
}

// Measure measures the segments of a log, oldest first and without the active one. Data below from
// has been compacted. A segment may be compacted if it ends at or below limit and its records are
// old enough for the policy.
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

// Group divides segments, oldest first, into groups that each fit into one segment: by bytes, by
// index entries, and by the offset range of an index entry. A segment that is too large alone is a
// group.
func Group(list []Segment, maxBytes int64, maxEntries int) (groups [][]Segment) {
	for len(list) > 0 {
		n, bytes, entries := 1, list[0].Bytes, list[0].Entries
		for n < len(list) {
			s := &list[n]
			bytes += s.Bytes
			entries += s.Entries
			// One more entry: the boundary between two old segments may need a third.
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
