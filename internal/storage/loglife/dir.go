package loglife

import "github.com/chronik-io/chronik/internal/states"

// DirState is the state of a log directory.
type DirState uint8

// The states of a log directory.
const (
	// DirOpening: the directory is being recovered.
	DirOpening DirState = iota
	// Running: the directory accepts records.
	Running
	// Blocked: the journal or the memory for records is full, and the last attempt to free it
	// failed; or the journal gets no other file. Records are refused; the attempts continue.
	Blocked
	// JournalDead: the journal failed. The logs roll back to their acknowledged ends, and the
	// directory reopens.
	JournalDead
	// Stopping: the directory is being closed.
	Stopping
	// StoppingDead is Stopping after a failure of the journal: the stop is not clean.
	StoppingDead
)

// DirUse is a use that a state of a directory allows.
type DirUse uint16

// The uses that a state of a directory may allow.
const (
	Records DirUse = 1 << iota // records are accepted
	Journal                    // frames link the redo pointer to the end of the journal
	Stops                      // the directory is being closed: no new work begins
)

// DirEvent is an event of a log directory.
type DirEvent uint8

// The events of a log directory.
const (
	Recovered     DirEvent = iota // a start has brought everything into synced segments
	Exhausted                     // the journal or the memory is full, and the attempt to free it failed
	Freed                         // there is space again, or the next attempt succeeded
	JournalFailed                 // a write or datasync of the journal failed
	Reopened                      // a new journal file accepts records
	Stop                          // Close was called
)

// On returns the state that follows an event, and the effect of the event.
func (s DirState) On(e DirEvent) (DirState, states.Answer) { return dirs.On(s, e) }

// Allows reports whether the state allows at least one of the given uses.
func (s DirState) Allows(u DirUse) bool { return dirs.Allows(s, u) }

// String returns the state's name in the table.
func (s DirState) String() string { return dirs.Rows[s].Name }

// String returns the event's name in the table.
func (e DirEvent) String() string { return dirs.Events[e] }

var dirs = states.New(
	[]string{"records", "journal", "stops"},
	[]string{"recovered", "exhausted", "freed", "journal failed", "reopened", "stop"},
	[]states.Row[DirState, DirEvent, DirUse]{
		DirOpening: {Name: "opening", Allows: Journal, Next: map[DirEvent]DirState{Recovered: Running}},
		Running: {Name: "running", Allows: Records | Journal, Next: map[DirEvent]DirState{
			Exhausted: Blocked, Freed: states.Ignore, JournalFailed: JournalDead, Stop: Stopping,
		}},
		Blocked: {Name: "blocked", Allows: Journal, Next: map[DirEvent]DirState{
			Exhausted: Blocked, Freed: Running, JournalFailed: JournalDead, Stop: Stopping,
		}},
		JournalDead: {Name: "journal dead", Allows: 0, Next: map[DirEvent]DirState{
			Exhausted: states.Ignore, Freed: states.Ignore, JournalFailed: JournalDead, Reopened: Running, Stop: StoppingDead,
		}},
		Stopping: {Name: "stopping", Allows: Journal | Stops, Next: map[DirEvent]DirState{
			Exhausted: Stopping, Freed: Stopping, JournalFailed: StoppingDead, Stop: states.Ignore,
		}},
		StoppingDead: {Name: "stopping, journal dead", Allows: Stops, Next: map[DirEvent]DirState{
			Exhausted: states.Ignore, Freed: states.Ignore, JournalFailed: states.Ignore, Reopened: states.Ignore, Stop: states.Ignore,
		}},
	},
)
