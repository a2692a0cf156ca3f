// Package turn collects what requests that are handled in a row leave undone, so that
// it is done once for all of them: the appends of fifty connections are one group of
// their log, and the groups of many logs one write of their journal.
//
// network begins and ends turns; storage leaves work in them. It imports nothing.
package turn

// Committer is work that is left for the end of a turn, such as a log with appends in
// its queue.
type Committer interface {
	// Commit does the work; there may be none. It must not block. It may leave a
	// Finisher, and nothing else, in the turn, which ends.
	Commit(*Turn)
}

// Finisher is work that is done when all Committers of a turn are through, such as a
// journal with entries in its queues.
type Finisher interface {
	// Finish does the work; there may be none. It may block for about as long as it
	// takes to wake somebody else for it, and for longer where a disk is stuck.
	Finish()
	// Wake has somebody else do it. It does not block.
	Wake()
}

// Turn belongs to one goroutine. Its zero value is ready for use.
type Turn struct {
	later []Committer
	last  []Finisher
}

const (
	// double is how far back a turn looks for the same Committer. Beyond that it is
	// asked for twice, which finds nothing to do the second time.
	double = 8
	// most is how many Committers a turn collects; more are done in between. kept is for
	// how many the memory is kept: every connection has a turn.
	most = 1024
	kept = 128
)

// Later has c committed at the end of the turn, once for all that ask for the same.
func (t *Turn) Later(c Committer) {
	if len(t.later) == most {
		t.commit()
	}
	n := len(t.later)
	for i := n - 1; i >= 0 && i >= n-double; i-- {
		if t.later[i] == c {
			return
		}
	}
	t.later = append(t.later, c)
}

// Last has f finished when the turn's Committers are through, once for all that ask
// for the same. Only Commit calls it; there are as many Finishers as log directories.
func (t *Turn) Last(f Finisher) {
	for _, g := range t.last {
		if g == f {
			return
		}
	}
	t.last = append(t.last, f)
}

// Idle says that nothing was left in the turn.
func (t *Turn) Idle() bool { return len(t.later)+len(t.last) == 0 }

// End does what was left, without blocking: Finishers are woken.
func (t *Turn) End() { t.end(Finisher.Wake) }

// Finish does what was left. One Finisher at most is finished here, after all others
// were woken: were its disk to stand still, theirs would not have to wait for it.
func (t *Turn) Finish() { t.end(Finisher.Finish) }

func (t *Turn) end(last func(Finisher)) {
	if t.Idle() {
		return
	}
	t.commit()
	n := len(t.last)
	for i, f := range t.last {
		if i < n-1 {
			f.Wake()
		} else {
			last(f)
		}
	}
	clear(t.last)
	t.last = t.last[:0]
}

func (t *Turn) commit() {
	for _, c := range t.later {
		c.Commit(t)
	}
	clear(t.later)
	if t.later = t.later[:0]; cap(t.later) > kept {
		t.later = nil
	}
}
