package window

import (
	"fmt"
	"math"
	"slices"
)

// Stored is the stored state of a share partition.
type Stored struct {
	// Start is SPSO.
	Start int64
	// Marks are in the order of their offsets. Offsets at or above Start that no mark names are
	// available: they were acquired when the last leader ended, or never.
	Marks []Mark
}

// Cut removes what the state has of offsets at or above end, and moves SPSO down to it: the log has
// lost these records, and other records will get their offsets. broken is empty in an ordinary
// build.
func (s Stored) Cut(end int64, broken Broken) Stored {
	s.Start = min(s.Start, end)
	if broken.Has(KeepCutMarks) {
		return s
	}
	n := slices.IndexFunc(s.Marks, func(m Mark) bool { return m.Last >= end })
	if n < 0 {
		return s
	}
	last := s.Marks[n]
	s.Marks = slices.Clone(s.Marks[:n])
	if last.First < end {
		last.Last = end - 1
		s.Marks = append(s.Marks, last)
	}
	return s
}

// Load returns the window of a stored state. An error means that the state is invalid.
func Load(cfg Config, s Stored) (*Window, error) {
	if s.Start < 0 {
		return nil, fmt.Errorf("load the state of a share partition: it starts at %d", s.Start)
	}
	w := New(cfg, s.Start)
	for _, m := range s.Marks {
		switch {
		case m.First > m.Last || m.First < w.end && m.First >= s.Start || m.Last < 0 || m.Last == math.MaxInt64:
			return nil, fmt.Errorf("load the state of a share partition: offsets %d to %d follow %d", m.First, m.Last, w.end-1)
		case m.State == Acquired || m.State > Archived || m.Count < 0 || m.Count > math.MaxInt16:
			return nil, fmt.Errorf("load the state of a share partition: offsets %d to %d have state %d and delivery count %d",
				m.First, m.Last, m.State, m.Count)
		case m.Last < s.Start:
			continue
		}
		first := max(m.First, s.Start)
		if first > w.end {
			gap := run{first: w.end, n: first - w.end}
			if cfg.Broken.Has(GapsArchived) {
				gap.state = Archived
			}
			w.tree.add(gap)
		}
		w.tree.add(run{first: first, n: m.Last - first + 1, state: m.State, count: uint16(m.Count)})
		w.end = m.Last + 1
	}
	w.advance()
	w.startDue = false // another load moves SPSO in the same way
	return w, nil
}
