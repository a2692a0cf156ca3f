package window

// Mark is the delivery state and the delivery count of a range of offsets, as they are stored.
type Mark struct {
	First, Last int64
	State       State // Available, Acknowledged, Archiving or Archived
	Count       int
}

// Write is a change of the stored state.
type Write struct {
	// Seq numbers the writes of a window from 1.
	Seq uint64
	// Start is SPSO. The marks of offsets below it are no longer needed.
	Start int64
	// Complete is how many offsets at or above Start are finished (KIP-1226).
	Complete int64
	// Marks replace those of their offsets. They are in the order of the offsets.
	Marks []Mark
}

// Due reports whether Begin would begin a write.
func (w *Window) Due() bool {
	return !w.dropped && w.write == nil && (w.startDue || w.tree.due())
}

// Pending returns the number of the write with which all changes are stored; 0: they are.
func (w *Window) Pending() uint64 {
	switch {
	case w.dropped:
		return 0
	case w.startDue || w.tree.due():
		return w.writes + 1
	case w.write != nil:
		return w.writes
	}
	return 0
}

// Begin returns the write under way. If there is none, it begins one with all that has changed, or
// returns nil if nothing has. The caller stores the write, and repeats it unchanged until it calls
// Written or Refused: a write without an answer may have been stored. It costs O(log n) for each
// leaf with a changed run.
//
// An acquisition is not stored, so after a load the records are available. A record that is
// acquired is written, if it has to be, as it was before the acquisition; after Close with its
// count, as no other delivery follows on this leader. The last delivery is not counted before it is
// over: the next leader would archive a record whose delivery only the change of leaders has ended.
func (w *Window) Begin() *Write {
	if w.write != nil && !(w.cfg.Broken.Has(SecondWrite) && w.tree.due()) {
		return w.write
	}
	if !w.startDue && !w.tree.due() || w.dropped {
		return nil
	}
	w.writes++
	w.startDue = false
	w.write = &Write{Seq: w.writes, Start: w.start, Complete: w.tree.offsets(Acknowledged) + w.tree.offsets(Archived)}
	w.tree.update(hasDirty, func(r *run) {
		w.write.add(w.mark(*r))
		r.flags = r.flags&^dirty | sent
	})
	return w.write
}

// mark returns what is stored of a run.
func (w *Window) mark(r run) Mark {
	m := Mark{First: r.first, Last: r.last(), State: r.state, Count: int(r.count)}
	switch r.state {
	case Acquired:
		m.State = Available
		if counts := w.closed && m.Count < w.cfg.Deliveries; !counts && !w.cfg.Broken.Has(CountAcquired) {
			m.Count--
		}
	case Delayed:
		m.State = Available
	}
	return m
}

// add adds a mark, or makes the last one longer.
func (w *Write) add(m Mark) {
	if n := len(w.Marks) - 1; n >= 0 {
		if last := &w.Marks[n]; last.Last+1 == m.First && last.State == m.State && last.Count == m.Count {
			last.Last = m.Last
			return
		}
	}
	w.Marks = append(w.Marks, m)
}

// Written reports that a write is stored durably. A late report of an earlier write has no effect.
// It costs O(log n) for each leaf that has a run of the write.
func (w *Window) Written(seq uint64) {
	if w.write == nil || w.write.Seq != seq {
		return
	}
	w.stored, w.write = w.write.Start, nil
	w.tree.update(hasSent, func(r *run) {
		if r.flags &^= sent; r.flags&held == 0 {
			r.ref = 0
		}
	})
}

// Refused reports that the write under way is not stored and never will be: another leader has
// loaded the state, it was replaced, or it has a later mark. The window drops its memory and serves
// nothing from then on. The caller loads the state into another one.
func (w *Window) Refused() {
	if w.cfg.Broken.Has(ServeRefused) {
		w.write = nil
		return
	}
	w.dropped, w.write, w.tree = true, nil, tree{}
}
