package connlife

import (
	"slices"

	"github.com/chronik-io/chronik/internal/states"
)

// Life is the state of the connection itself.
type Life uint8

// The states of a connection; the package comment explains them.
const (
	Open Life = iota
	Draining
	Closing
	Killed
	Hijacked
	Gone
	Released
)

// Reader is which goroutine reads, and what it does.
type Reader uint8

// The states of a reader.
const (
	Free Reader = iota
	Busy
	Waiting
	Offered
	Polling
	Recalled
	Ended
)

// Writer is which goroutine writes.
type Writer uint8

// The states of a writer.
const (
	Idle Writer = iota
	Listed
	Writing
	WritingListed
	Left
	Over
)

// Event is an event of a connection.
type Event uint8

// The events of a connection.
const (
	Stop       Event = iota // no further request may be read
	Kill                    // the socket is closed at once
	Drained                 // the reader has ended, and all answers are written
	Hijack                  // the socket passes to a link
	Orphans                 // the writer ends, and requests are unanswered
	WriterEnds              // the writer ends, and all requests are answered
	LastAnswer              // the last unanswered request is answered

	Push       // a request is queued and passed to the handler
	Block      // the reader is about to block
	Wait       // the reader waits until a request may start
	Wake       // it waits no longer
	Offer      // the reader leaves the connection to the poller
	Recall     // the reader is to take it back
	TakeBack   // the reader has it back
	Poll       // the poller reads
	Handled    // the poller has handled all that had arrived
	Release    // the poller leaves the rest to the reader
	Interrupt  // the poller has handled all, and the reader is to have the connection
	TakeOver   // the reader handles a request that the poller has passed on
	ReaderEnds // nothing more is read

	List    // the flusher is asked to write
	Unlist  // the flusher checks the connection
	Take    // a goroutine takes answers to write them
	Written // it has written them
	Leave   // the flusher leaves the rest of a write to the writer goroutine
	Resume  // the writer goroutine continues that write
)

var events = []string{
	"stop", "kill", "drained", "hijack", "orphans", "writer ends", "last answer",
	"push", "block", "wait", "wake", "offer", "recall", "take back", "poll", "handled", "release", "interrupt", "take over",
	"reader ends", "list", "unlist", "take", "written", "leave", "resume",
}

// String returns the event's name.
func (e Event) String() string { return events[e] }

// State is the state of a connection, its reader and its writer. The zero value is the state of a
// new connection, whose reader and writer goroutines have begun.
type State uint16

const (
	stateBits = 3 * 3 // three bits for each table
	allStates = 1 << stateBits
	allEvents = 1 << 5

	// They do not compile if a table has more states than bits.
	_ = 7 - Released
	_ = 7 - Ended
	_ = 7 - Over
)

func stateOf(l Life, r Reader, w Writer) State { return State(l)<<6 | State(r)<<3 | State(w) }

// Life returns the state of the connection.
func (s State) Life() Life { return Life(s >> 6) }

// Reader returns the state of its reader.
func (s State) Reader() Reader { return Reader(s >> 3 & 7) }

// Writer returns the state of its writer.
func (s State) Writer() Writer { return Writer(s & 7) }

// Alive reports whether requests may be queued and answers written.
func (s State) Alive() bool { return s.Life() <= Draining }

// Writes reports whether a goroutine writes, or left a write unfinished.
func (s State) Writes() bool { return s.Writer() >= Writing && s.Writer() <= Left }

// Can reports whether the event is possible.
func (s State) Can(e Event) bool {
	_, answer := s.On(e)
	return answer != states.Refused
}

// On returns the state that follows an event, and its effect. It takes about a nanosecond: a
// request has a dozen events.
func (s State) On(e Event) (State, states.Answer) {
	to := product[s%allStates][e%allEvents]
	return State(to % allStates), states.Answer(to >> stateBits)
}

// String names the three states.
func (s State) String() string {
	return lives.Rows[s.Life()].Name + ", reader " + readers.Rows[s.Reader()].Name + ", writer " + writers.Rows[s.Writer()].Name
}

// product has the state that follows each event in each state, and above stateBits the effect.
var product = func() (of [allStates][allEvents]uint16) {
	for l := range Released + 1 {
		for r := range Ended + 1 {
			for w := range Over + 1 {
				s := stateOf(l, r, w)
				for e := range Resume + 1 {
					next, effect := combine(l, r, w, e)
					of[s][e] = uint16(effect)<<stateBits | uint16(next)
				}
			}
		}
	}
	return of
}()

// combine asks the tables that have the event.
func combine(l Life, r Reader, w Writer, e Event) (State, states.Answer) {
	effects := [...]states.Answer{states.Ignored, states.Ignored, states.Ignored}
	toLife, toReader, toWriter := l, r, w
	if lives.Hears(e) {
		toLife, effects[0] = lives.On(l, e)
	}
	if readers.Hears(e) {
		toReader, effects[1] = readers.On(r, e)
	}
	if writers.Hears(e) {
		toWriter, effects[2] = writers.On(w, e)
	}
	if slices.Contains(effects[:], states.Refused) {
		return stateOf(l, r, w), states.Refused
	}
	return stateOf(toLife, toReader, toWriter), slices.Max(effects[:])
}
