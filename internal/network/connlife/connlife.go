package connlife

import "github.com/chronik-io/chronik/internal/states"

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
	GiveBack   // the poller leaves the rest to the reader
	Interrupt  // the poller has handled all, and the reader is to have the connection
	TakeOver   // the reader handles a request that the poller has passed on
	ReaderEnds // nothing more is read

	List    // the flusher is asked to write
	Unlist  // the flusher looks at the connection
	Take    // a goroutine takes answers to write them
	Written // it has written them
	Leave   // the flusher leaves the rest of a write to the writer goroutine
	Resume  // the writer goroutine continues that write
)

var events = []string{
	"stop", "kill", "drained", "hijack", "orphans", "writer ends", "last answer",
	"push", "block", "wait", "wake", "offer", "recall", "take back", "poll", "handled", "give back", "interrupt", "take over",
	"reader ends", "list", "unlist", "take", "written", "leave", "resume",
}

// String returns the event's name.
func (e Event) String() string { return events[e] }

// State is the state of a connection, its reader and its writer. The zero value is the state of a
// new connection, whose reader and writer goroutines have begun.
type State struct {
	life   Life
	reader Reader
	writer Writer
}

// Life returns the state of the connection.
func (s State) Life() Life { return s.life }

// Reader returns the state of its reader.
func (s State) Reader() Reader { return s.reader }

// Writer returns the state of its writer.
func (s State) Writer() Writer { return s.writer }

// Alive reports whether requests may be queued and answers written.
func (s State) Alive() bool { return s.life <= Draining }

// Writes reports whether a goroutine writes, or left a write unfinished.
func (s State) Writes() bool { return s.writer >= Writing && s.writer <= Left }

// Can reports whether the event is possible.
func (s State) Can(e Event) bool {
	_, answer := s.On(e)
	return answer != states.Refused
}

// On returns the state that follows an event, and its effect.
func (s State) On(e Event) (State, states.Answer) {
	next, best := s, states.Ignored
	if in := hears[e]; in&inLife != 0 {
		var answer states.Answer
		if next.life, answer = lives.On(s.life, e); answer == states.Refused {
			return s, answer
		}
		best = max(best, answer)
	}
	if hears[e]&inReader != 0 {
		var answer states.Answer
		if next.reader, answer = readers.On(s.reader, e); answer == states.Refused {
			return s, answer
		}
		best = max(best, answer)
	}
	if hears[e]&inWriter != 0 {
		var answer states.Answer
		if next.writer, answer = writers.On(s.writer, e); answer == states.Refused {
			return s, answer
		}
		best = max(best, answer)
	}
	return next, best
}

// String names the three states.
func (s State) String() string {
	return lives.Rows[s.life].Name + ", reader " + readers.Rows[s.reader].Name + ", writer " + writers.Rows[s.writer].Name
}

// The tables that an event concerns.
const (
	inLife = 1 << iota
	inReader
	inWriter
)

// hears says for each event which tables it concerns.
var hears = func() (of [Resume + 1]uint8) {
	for e := range of {
		if lives.Hears(Event(e)) {
			of[e] |= inLife
		}
		if readers.Hears(Event(e)) {
			of[e] |= inReader
		}
		if writers.Hears(Event(e)) {
			of[e] |= inWriter
		}
	}
	return of
}()
