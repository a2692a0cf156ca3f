package window

// Letters are records that have to be copied as dead letters before they are archived.
type Letters struct {
	First, Last int64
	// Count is how often they were delivered.
	Count int
}

// NextLetters returns the first records that have to be copied, at most so many, and each time
// others; false: there are none at present. Their state Archiving is durable, so that no member
// gets a record that was copied. After a load they are returned again.
func (w *Window) NextLetters(most int64) (Letters, bool) {
	r, ok := w.tree.next(w.start, hasCopy)
	if !ok {
		return Letters{}, false
	}
	last := min(r.last(), r.first+most-1)
	w.tree.set(r, r.first, last, run{state: Archiving, count: r.count, flags: r.flags | copying}, 0)
	return Letters{r.first, last, int(r.count)}, true
}

// Copied reports that records were copied durably, or that the caller gives up: those whose state
// is Archiving are archived, and Copied returns how many. It skips other offsets.
func (w *Window) Copied(first, last int64) (archived int64) {
	for at := max(first, w.start); at <= last && at < w.end && !w.dropped; {
		r := w.tree.get(at)
		end := min(r.last(), last)
		if r.state == Archiving {
			archived += end - at + 1
			w.tree.set(r, at, end, run{state: Archived, count: r.count, flags: dirty}, 0)
		}
		at = end + 1
	}
	w.advance()
	return archived
}
