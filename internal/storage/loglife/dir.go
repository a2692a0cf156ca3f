package loglife

// DirState is the state of a log directory.
type DirState uint8

// The states of a log directory.
const (
	// DirOpening: a start recovers it.
	DirOpening DirState = iota
	// Running: it takes records.
	Running
	// Blocked: the journal is full, and the last sweep could free nothing of it. Records
	// are refused; sweeps go on.
	Blocked
	// JournalDead: the journal failed. The logs go back to what was acknowledged, and the
	// directory reopens.
	JournalDead
	// Stopping: it is being closed.
	Stopping
	// StoppingDead is Stopping with a journal that failed: the stop is not clean.
	StoppingDead
)

// DirUse is something that a state of a directory allows.
type DirUse uint16

// What a state of a directory may allow.
const (
	Records DirUse = 1 << iota // records are taken
	Journal                    // frames lead from the redo pointer to the end of the journal
	Stops                      // it is being closed: nothing begins any more
)

// DirEvent is something that happens to a log directory.
type DirEvent uint8

// The events of a log directory.
const (
	Recovered     DirEvent = iota // a start brought everything into synced segments
	JournalFull                   // a sweep failed, and the journal is full
	JournalFreed                  // a sweep succeeded
	JournalFailed                 // a write or datasync of the journal failed
	Reopened                      // a fresh journal file takes records
	Stop                          // Close was called
)

// On returns the state that follows an event, and what the event does.
func (s DirState) On(e DirEvent) (DirState, Answer) { return dirs.on(s, e) }

// Allows reports whether the state allows one of some uses.
func (s DirState) Allows(u DirUse) bool { return dirs.rows[s].allows&u != 0 }

// String names the state as the table does.
func (s DirState) String() string { return dirs.rows[s].name }

// String names the event as the table does.
func (e DirEvent) String() string { return dirs.events[e] }

var dirs = table[DirState, DirEvent, DirUse]{
	uses:   []string{"records", "journal", "stops"},
	events: []string{"recovered", "journal full", "journal freed", "journal failed", "reopened", "stop"},
	rows: []row[DirState, DirEvent, DirUse]{
		DirOpening: {"opening", Journal, map[DirEvent]DirState{Recovered: Running}},
		Running: {"running", Records | Journal, map[DirEvent]DirState{
			JournalFull: Blocked, JournalFreed: ignore, JournalFailed: JournalDead, Stop: Stopping,
		}},
		Blocked: {"blocked", Journal, map[DirEvent]DirState{
			JournalFull: Blocked, JournalFreed: Running, JournalFailed: JournalDead, Stop: Stopping,
		}},
		JournalDead: {"journal dead", 0, map[DirEvent]DirState{
			JournalFull: ignore, JournalFreed: ignore, JournalFailed: JournalDead, Reopened: Running, Stop: StoppingDead,
		}},
		Stopping: {"stopping", Journal | Stops, map[DirEvent]DirState{
			JournalFull: Stopping, JournalFreed: Stopping, JournalFailed: StoppingDead, Stop: ignore,
		}},
		StoppingDead: {"stopping, journal dead", Stops, map[DirEvent]DirState{
			JournalFull: ignore, JournalFreed: ignore, JournalFailed: ignore, Reopened: ignore, Stop: ignore,
		}},
	},
}
