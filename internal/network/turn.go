package network

// Committer is work that requests leave for the end of their turn, such as a log
// with appends in its queue.
type Committer interface {
	// Commit does the work; there may be none. It must not block.
	Commit()
}

// turn collects what the requests that are handled in a row leave undone, so
// that it is done once for all of them. It belongs to one goroutine.
type turn struct{ later []Committer }

const (
	// turnDouble is how far back a turn looks for the same work. Beyond that it is
	// asked for twice, which finds nothing to do the second time.
	turnDouble = 8
	// turnMost is how much a turn collects; more is done in between. turnKept is for
	// how much of it the memory is kept: every connection has a turn.
	turnMost = 1024
	turnKept = 128
)

func (t *turn) add(c Committer) {
	if len(t.later) == turnMost {
		t.end()
	}
	n := len(t.later)
	for i := n - 1; i >= 0 && i >= n-turnDouble; i-- {
		if t.later[i] == c {
			return
		}
	}
	t.later = append(t.later, c)
}

// end does what was left.
func (t *turn) end() {
	if len(t.later) == 0 {
		return
	}
	for _, c := range t.later {
		c.Commit()
	}
	clear(t.later)
	if t.later = t.later[:0]; cap(t.later) > turnKept {
		t.later = nil
	}
}
