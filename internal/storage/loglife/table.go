package loglife

// Answer is the effect of an event in a state.
type Answer uint8

// The effects of an event.
const (
	// Refused: the event is impossible in this state. If it happens, the caller has a bug.
	Refused Answer = iota
	// Ignored: neither the state nor its cause changes.
	Ignored
	// Moved: the next state begins, with a new cause, even if it is the same state.
	Moved
)

// ignore marks an event in the table that changes nothing.
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
