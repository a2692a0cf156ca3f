// Package states answers events from a table of states: which state follows, and which events a
// state refuses. It is pure: no I/O, no locks, no clock. The packages with tables define what their
// states mean (storage/loglife, network/connlife).
package states

// Answer is the effect of an event in a state.
type Answer uint8

// The effects of an event.
const (
	// Refused: the event is impossible in this state. If it happens, the caller has a bug.
	Refused Answer = iota
	// Ignored: the event changes nothing.
	Ignored
	// Moved: the next state begins, even if it is the same state.
	Moved
)

const (
	// Ignore in a Row marks an event that changes nothing.
	Ignore = 0xff
	refuse = 0xfe
)

// Row is one state: its name, the uses that it allows, and the state that follows each event. It
// refuses an event that Next lacks.
type Row[S, E ~uint8, U ~uint16] struct {
	Name   string
	Allows U
	Next   map[E]S
}

// Table are the states of one thing; a state is the index of its row.
type Table[S, E ~uint8, U ~uint16] struct {
	Uses   []string // names of U's bits
	Events []string // names of E's values
	Rows   []Row[S, E, U]

	next []uint8 // by state and event
}

// New returns a table for at most 254 states. It panics if a row answers an event without a name.
func New[S, E ~uint8, U ~uint16](uses, events []string, rows []Row[S, E, U]) *Table[S, E, U] {
	t := &Table[S, E, U]{Uses: uses, Events: events, Rows: rows, next: make([]uint8, len(rows)*len(events))}
	for s, r := range rows {
		for e := range events {
			t.next[s*len(events)+e] = refuse
		}
		for e, next := range r.Next {
			t.next[s*len(events) : (s+1)*len(events)][e] = uint8(next)
		}
	}
	return t
}

// On returns the state that follows an event, and the effect of the event. It takes about a
// nanosecond.
func (t *Table[S, E, U]) On(s S, e E) (S, Answer) {
	switch next := t.next[int(s)*len(t.Events)+int(e)]; next {
	case refuse:
		return s, Refused
	case Ignore:
		return s, Ignored
	default:
		return S(next), Moved
	}
}

// Allows reports whether a state allows at least one of the given uses.
func (t *Table[S, E, U]) Allows(s S, u U) bool { return t.Rows[s].Allows&u != 0 }

// Hears reports whether a row has the event.
func (t *Table[S, E, U]) Hears(e E) bool {
	for s := range t.Rows {
		if _, answer := t.On(S(s), e); answer != Refused {
			return true
		}
	}
	return false
}

// Moves reports whether the event changes a state.
func (t *Table[S, E, U]) Moves(e E) bool {
	for s := range t.Rows {
		if _, answer := t.On(S(s), e); answer == Moved {
			return true
		}
	}
	return false
}
