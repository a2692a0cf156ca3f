package window

// Letters are records that have to be copied as dead letters before they are archived.
type Letters struct {
	First, Last int64
	// Count is how often they were delivered.
	Count int
}

// NextLetters returns the first records that have to be copied, at most so many, and each time
// others; false: there are none at present. Their state Archiving is durable, so that no member gets a record that was
// copied. After a load they are returned again: a record may be copied twice.
func (w *Window) NextLetters(most int64) (Letters, bool) {
	r, ok := w.tree.next(w.start, hasCopy)
	if !ok {
		return Letters{}, false
	}
	last := min(r.last(), r.first+most-1)
	w.tree.set(r, r.first, last, run{state: Archiving, count: r.count, flags: r.flags | copying}, 0)
	return Letters{r.first, last, int(r.count)}, true
}

// Copied reports that records of NextLetters were copied durably, or that the caller gives up: they
// are archived. Offsets that the window no longer has are skipped.
func (w *Window) Copied(first, last int64) {
	for at := max(first, w.start); at <= last && at < w.end && !w.dropped; {
		r := w.tree.get(at)
		end := min(r.last(), last)
		if r.state == Archiving && r.flags&copying != 0 {
			w.tree.set(r, at, end, run{state: Archived, count: r.count, flags: dirty}, 0)
		}
		at = end + 1
	}
	w.advance()
}
