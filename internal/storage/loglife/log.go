package loglife

// State is the state of a log.
type State uint8

// The states of a log.
const (
	// Opening: a start reads its files and replays the journal, or it is being created.
	// It has no users yet.
	Opening State = iota
	// Online: it takes and serves records.
	Online
	// Swapping: a compacted segment replaces others. Writes to segments wait until it has;
	// appends and reads do not.
	Swapping
	// SwapStuck: a swap could not be finished. The maintenance goroutine tries again.
	SwapStuck
	// Cutting: the log is truncated in memory; the checkpoint or the files may not be yet.
	Cutting
	// CutStuck: a truncation could not be finished. The maintenance goroutine tries again.
	CutStuck
	// Failing: a write or datasync of the last segment failed. The maintenance goroutine
	// is to continue the log in a new one.
	Failing
	// Aside: the frames that no segment holds are in a file of their own, from which a
	// repair or a start replays them. The log holds neither the journal nor memory.
	Aside
	// AsideStuck is Aside and SwapStuck.
	AsideStuck
	// Offline: the system refused to read or change its files. The next start tries again.
	Offline
	// Damaged: its stored bytes are wrong. It stays offline over starts.
	Damaged
	// Deleted: a deletion has begun.
	Deleted
)

// Use is something that a state allows.
type Use uint16

// What a state may allow.
const (
	Append   Use = 1 << iota // records are appended, and the journal may carry them
	Read                     // records are served
	Whole                    // all records are in segments or in memory: a read finds each of them
	Flush                    // any goroutine writes, syncs and rolls segments
	Change                   // a truncation, a compaction, or a roll for age may begin
	Start                    // the start of the log may move, and segments below it go
	Repair                   // the maintenance goroutine has something to finish
	SetAside                 // frames may be copied to a file of their own
	Replay                   // frames are in such a file, which checkpoints name
	AsFound                  // checkpoints repeat what they said when the log went offline
)

// Event is something that happens to a log.
type Event uint8

// The events of a log.
const (
	Opened        Event = iota // a start or a creation has come to its end
	SegmentFailed              // a write or datasync of a segment failed, or a replay into one
	FramesAside                // a file holds the frames that no segment does
	Replayed                   // synced segments hold what was aside
	Mended                     // a checkpoint lists the new segment
	SwapBegun                  // memory lists the compacted segment
	SwapFailed                 // a step of the swap failed
	SwapDone                   // a checkpoint says that nothing is left of the swap
	CutBegun                   // memory says that the log ends earlier
	CutFailed                  // a step of the truncation failed
	CutDone                    // checkpoint and files say what memory does
	Unreadable                 // the system refused a call without which the log cannot be used
	Found                      // the stored bytes are wrong, or acknowledged records are lost
	Deletion                   // the log is to go
)

// On returns the state that follows an event, and what the event does.
func (s State) On(e Event) (State, Answer) { return logs.on(s, e) }

// Allows reports whether the state allows one of some uses.
func (s State) Allows(u Use) bool { return logs.rows[s].allows&u != 0 }

// String names the state as the table does.
func (s State) String() string { return logs.rows[s].name }

// String names the event as the table does.
func (e Event) String() string { return logs.events[e] }

var logs = table[State, Event, Use]{
	uses: []string{"append", "read", "whole", "flush", "change", "start", "repair", "set aside", "replay", "as found"},
	events: []string{
		"opened", "segment failed", "frames aside", "replayed", "mended", "swap begun", "swap failed", "swap done",
		"cut begun", "cut failed", "cut done", "unreadable", "found wrong", "deletion",
	},
	rows: []row[State, Event, Use]{
		Opening: {"opening", Read | Whole | Flush, map[Event]State{
			Opened: Online, SegmentFailed: ignore, Unreadable: Offline, Found: Damaged,
		}},
		Online: {"online", Append | Read | Whole | Flush | Change | Start, map[Event]State{
			SegmentFailed: Failing, SwapBegun: Swapping, CutBegun: Cutting, Unreadable: Offline, Deletion: Deleted,
		}},
		Swapping: {"swapping", Append | Read | Whole, map[Event]State{
			SwapFailed: SwapStuck, SwapDone: Online, Deletion: Deleted,
		}},
		SwapStuck: {"swap stuck", Read | Whole | Repair | SetAside, map[Event]State{
			SwapFailed: SwapStuck, SwapDone: Online, FramesAside: AsideStuck, Found: Damaged, Deletion: Deleted,
		}},
		Cutting: {"cutting", Read | Whole | Repair, map[Event]State{
			CutFailed: CutStuck, CutDone: Online, Unreadable: Offline, Deletion: Deleted,
		}},
		CutStuck: {"cut stuck", Read | Whole | Repair, map[Event]State{
			CutFailed: CutStuck, CutDone: Online, Unreadable: Offline, Deletion: Deleted,
		}},
		Failing: {"failing", Read | Whole | Start | Repair | SetAside, map[Event]State{
			SegmentFailed: Failing, FramesAside: Aside, Mended: Online, Found: Damaged, Deletion: Deleted,
		}},
		Aside: {"aside", Read | Start | Repair | Replay, map[Event]State{
			SegmentFailed: Aside, Replayed: Failing, Found: Damaged, Deletion: Deleted,
		}},
		AsideStuck: {"aside, swap stuck", Read | Repair | Replay, map[Event]State{
			SwapFailed: AsideStuck, SwapDone: Aside, Deletion: Deleted,
		}},
		Offline: {"offline", AsFound, map[Event]State{Unreadable: ignore, Deletion: Deleted}},
		Damaged: {"damaged", AsFound, map[Event]State{Unreadable: ignore, Deletion: Deleted}},
		// What was going on when it was deleted comes to its end, and changes nothing.
		Deleted: {"deleted", 0, map[Event]State{
			SegmentFailed: ignore, Replayed: ignore, Mended: ignore, SwapFailed: ignore, SwapDone: ignore, CutFailed: ignore,
			CutDone: ignore, Unreadable: ignore, Found: ignore, Deletion: ignore,
		}},
	},
}
