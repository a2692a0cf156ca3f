package loglife

// Answer is what an event does in a state.
type Answer uint8

// The answers to an event.
const (
	// Refused: the event cannot happen in this state. If it does, the caller is wrong.
	Refused Answer = iota
	// Ignored: nothing changes, neither the state nor its cause.
	Ignored
	// Moved: the next state begins, and with it a new cause, also if it is the same state.
	Moved
)

// ignore stands in the table for an event that changes nothing.
const ignore = 0xff

type table[S, E ~uint8, U ~uint16] struct {
	uses   []string // names of U's bits
	events []string // names of E's values
	rows   []row[S, E, U]
}

type row[S, E ~uint8, U ~uint16] struct {
	name   string
	allows U
	next   map[E]S
}

func (t *table[S, E, U]) on(s S, e E) (S, Answer) {
	switch next, ok := t.rows[s].next[e]; {
	case !ok:
		return s, Refused
	case next == ignore:
		return s, Ignored
	default:
		return next, Moved
	}
}
