package connlife

import (
	"os"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/states"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/statestest"
)

const again = "go test ./internal/network/connlife"

func TestTheDrawingIsTheTable(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	must.OK(t, err)
	_, rest, _ := strings.Cut(string(b), "# The connection\n")
	ofLife, rest, _ := strings.Cut(rest, "# The reader\n")
	ofReader, ofWriter, _ := strings.Cut(rest, "# The writer\n")
	statestest.Drawing(t, "connection", lives, ofLife)
	statestest.Drawing(t, "reader", readers, ofReader)
	statestest.Drawing(t, "writer", writers, ofWriter)
}

func TestTheDocumentShowsTheTable(t *testing.T) {
	const doc = "../../../docs/requests.md"
	golden.Part(t, doc, "states of a connection", statestest.Page(lives), again)
	golden.Part(t, doc, "states of a reader", statestest.Page(readers), again)
	golden.Part(t, doc, "states of a writer", statestest.Page(writers), again)
}

// model is a connection as independent flags with a rule for each event. It knows no tables.
type model struct {
	stopped, closed, killed, taken, orphaned, released bool
	lent, polling, back, busy, waiting, ended          bool
	writing, listed, left, over                        bool
}

// on applies an event, and reports whether it is possible.
func (m *model) on(e Event) bool {
	dead := m.closed || m.killed || m.taken
	reads := !m.lent && !m.polling && !m.back && !m.waiting && !m.ended // the reader goroutine runs
	still := !m.writing && !m.over
	switch {
	case e == Stop && !dead:
		m.stopped = true
		m.back, m.lent = m.back || m.lent, false
	case e == Kill && !m.killed && !m.taken && !m.released:
		m.killed, m.closed = true, false
		m.back, m.lent = m.back || m.lent, false
	case e == Stop, e == Kill:
	case e == Drained && m.stopped && !dead && m.ended && still:
		m.closed = true
	case e == Hijack && !m.stopped && !dead && reads && still:
		m.taken = true
	case e == Orphans && m.killed && !m.released && m.ended && still:
		m.orphaned, m.over, m.listed = true, true, false
	case e == WriterEnds && dead && m.ended && still:
		m.released, m.over, m.listed = true, true, false
	case e == LastAnswer && m.orphaned && !m.released:
		m.released = true
	case e == Push && !dead && (reads || m.polling):
		m.busy = reads
	case e == Block && reads:
		m.busy = false
	case e == Wait && reads:
		m.busy, m.waiting = false, true
	case e == Wake && m.waiting:
		m.waiting = false
	case e == Offer && reads && !m.busy && !m.stopped && !dead:
		m.lent = true
	case e == Recall:
		m.back, m.lent = m.back || m.lent, false
	case e == TakeBack && m.back:
		m.back = false
	case e == Poll && m.lent:
		m.lent, m.polling = false, true
	case e == Handled && m.polling && !m.stopped && !dead:
		m.lent, m.polling = true, false
	case e == Release && m.polling:
		m.polling = false
	case e == Interrupt && m.polling:
		m.back, m.polling = true, false
	case e == TakeOver && reads && !m.busy:
		m.busy = true
	case e == ReaderEnds && reads && !m.closed:
		m.ended, m.busy = true, false
		m.stopped = m.stopped || !dead
	case e == List && !m.busy && still && !m.listed:
		m.listed = true
	case e == Unlist && (m.listed || m.over):
		m.listed = false
	case e == Take && !dead && still:
		m.writing = true
	case e == Written && m.writing && !m.left:
		m.writing = false
	case e == Leave && !dead && m.writing && !m.left && !m.listed:
		m.left = true
	case e == Resume && m.left:
		m.left = false
	default:
		return false
	}
	return true
}

// what is true of a state, in the words of the model.
func (s State) flags() model {
	r, w := s.Reader(), s.Writer()
	return model{
		lent: r == Offered, polling: r == Polling, back: r == Recalled, busy: r == Busy, waiting: r == Waiting, ended: r == Ended,
		writing: s.Writes(), listed: w == Listed || w == WritingListed, left: w == Left, over: w == Over,
		closed: s.Life() == Closing, killed: s.Life() == Killed, taken: s.Life() == Hijacked, released: s.Life() == Released,
	}
}

// comparable drops what a state does not remember of its past.
func (m model) comparable() model {
	m.stopped, m.orphaned = false, false
	if m.over {
		m.closed, m.killed, m.taken = false, false, false
	}
	return m
}

// The walk visits every state of the three tables together and of the model, by every event.
func TestEveryStateAgreesWithTheModel(t *testing.T) {
	type pair struct {
		s State
		m model
	}
	seen, next := map[pair]bool{{}: true}, []pair{{}}
	moved := map[Event]bool{}
	var lifes [Released + 1]bool
	var reading [Ended + 1]bool
	var writing [Over + 1]bool
	for len(next) > 0 {
		p := next[0]
		next = next[1:]
		lifes[p.s.Life()], reading[p.s.Reader()], writing[p.s.Writer()] = true, true, true
		promises(t, p.s)
		for e := range Resume + 1 {
			to, answer := p.s.On(e)
			m := p.m
			possible := m.on(e)
			if possible != (answer != states.Refused) {
				t.Fatalf("%v: %v: possible %v, answered %v", p.s, e, possible, answer)
			}
			if !possible {
				continue
			}
			if m.comparable() != to.flags().comparable() {
				t.Fatalf("%v: %v leads to %v, the model says %+v", p.s, e, to, m)
			}
			moved[e] = moved[e] || answer == states.Moved
			if q := (pair{to, m}); !seen[q] {
				seen[q] = true
				next = append(next, q)
			}
		}
	}
	for e := range Resume + 1 {
		if !moved[e] {
			t.Errorf("no state is left by %q", e)
		}
	}
	for i, ok := range lifes {
		if !ok {
			t.Errorf("never %s", lives.Rows[i].Name)
		}
	}
	for i, ok := range reading {
		if !ok {
			t.Errorf("reader never %s", readers.Rows[i].Name)
		}
	}
	for i, ok := range writing {
		if !ok {
			t.Errorf("writer never %s", writers.Rows[i].Name)
		}
	}
}

// promises checks properties on which package network relies.
func promises(t *testing.T, s State) {
	t.Helper()
	for _, rule := range []struct {
		broken bool
		what   string
	}{
		{s.Reader() == Offered && s.Life() != Open, "is offered to a poller and does not start requests"},
		{s.Writer() == Over && s.Reader() != Ended, "has a reader without a writer"},
		{s.Writer() == Over && s.Life() < Gone, "has lost its writer and is in use"},
		{s.Life() >= Gone && s.Writer() != Over, "is gone and has a writer"},
		{s.Writes() && s.Life() == Closing, "closes while answers are written"},
		{s.Can(Take) && !s.Alive(), "writes after its end"},
		{s.Can(Push) && !s.Alive(), "queues requests after its end"},
		{s.Alive() && !s.Can(Kill), "cannot be killed"},
	} {
		if rule.broken {
			t.Errorf("a connection that is %v %s", s, rule.what)
		}
	}
}
