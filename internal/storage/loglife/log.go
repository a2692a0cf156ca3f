package loglife

import "github.com/chronik-io/chronik/internal/states"

// State is the state of a log.
type State uint8

// The states of a log.
const (
	// Opening: recovery reads its files and replays the journal, or it is being created. It is not
	// in use yet.
	Opening State = iota
	// Online: it accepts and serves records.
	Online
	// Swapping: a compacted segment replaces others. Writes to segments wait for the end of the
	// swap; appends and reads do not.
	Swapping
	// SwapStuck: a step of a swap failed. The maintenance goroutine retries it.
	SwapStuck
	// Cutting: the log is truncated in memory; the checkpoint or the files may not be yet.
	Cutting
	// CutStuck: a step of a truncation failed. The maintenance goroutine retries it.
	CutStuck
	// Failing: a write or datasync of the last segment failed. The maintenance goroutine will
	// continue the log in a new one.
	Failing
	// Quarantined: frames that no segment holds are quarantined in a file, from which a repair or a
	// start replays them. The log pins neither the journal nor memory.
	Quarantined
	// QuarantinedStuck is Quarantined and SwapStuck.
	QuarantinedStuck
	// Offline: the system refused to read or change its files. The maintenance goroutine tries
	// again what a start does.
	Offline
	// Damaged: its stored bytes are wrong. It stays offline after restarts.
	Damaged
	// Deleted: a deletion has begun.
	Deleted
)

// Use is a use that a state allows.
type Use uint16

// The uses that a state may allow.
const (
	Append     Use = 1 << iota // records are appended, and sweeps may carry them forward in the journal
	Read                       // records are served
	Whole                      // all records are in segments or in memory, so a read finds each of them
	Flush                      // any goroutine writes, syncs and rolls segments
	Change                     // a truncation, a compaction, or a roll for age may begin
	Start                      // the log start may move, and segments below it are removed
	Repair                     // the maintenance goroutine has work to finish
	Quarantine                 // frames may be copied to a quarantine file
	Replay                     // checkpoints name a quarantine file to replay
	AsFound                    // checkpoints repeat the entry from when the log went offline
)

// Event is an event of a log.
type Event uint8

// The events of a log.
const (
	Opened            Event = iota // a start or a creation has ended
	SegmentFailed                  // a write or datasync of a segment failed, or a replay into one
	FramesQuarantined              // a quarantine file holds the frames that no segment does
	Replayed                       // synced segments hold the quarantined frames
	Mended                         // a checkpoint lists the new segment
	SwapBegun                      // memory lists the compacted segment
	SwapFailed                     // a step of the swap failed
	SwapDone                       // a checkpoint no longer names the swap
	CutBegun                       // the log ends earlier in memory
	CutFailed                      // a step of the truncation failed
	CutDone                        // checkpoint and files match memory
	Unreadable                     // the system refused a call without which the log cannot be used
	FoundDamaged                   // the stored bytes are wrong, or acknowledged records are lost
	Deletion                       // the log is being deleted
)

// On returns the state that follows an event, and the effect of the event.
func (s State) On(e Event) (State, states.Answer) { return logs.On(s, e) }

// Allows reports whether the state allows at least one of the given uses.
func (s State) Allows(u Use) bool { return logs.Allows(s, u) }

// String returns the state's name in the table.
func (s State) String() string { return logs.Rows[s].Name }

// String returns the event's name in the table.
func (e Event) String() string { return logs.Events[e] }

var logs = states.New(
	[]string{"append", "read", "whole", "flush", "change", "start", "repair", "quarantine", "replay", "as found"},
	[]string{
		"opened", "segment failed", "frames quarantined", "replayed", "repaired", "swap begun", "swap failed", "swap done",
		"cut begun", "cut failed", "cut done", "unreadable", "found damaged", "deletion",
	},
	[]states.Row[State, Event, Use]{
		Opening: {Name: "opening", Allows: Read | Whole | Flush, Next: map[Event]State{
			Opened: Online, SegmentFailed: states.Ignore, Unreadable: Offline, FoundDamaged: Damaged,
		}},
		Online: {Name: "online", Allows: Append | Read | Whole | Flush | Change | Start, Next: map[Event]State{
			SegmentFailed: Failing, SwapBegun: Swapping, CutBegun: Cutting, Unreadable: Offline, Deletion: Deleted,
		}},
		Swapping: {Name: "swapping", Allows: Append | Read | Whole, Next: map[Event]State{
			SwapFailed: SwapStuck, SwapDone: Online, Deletion: Deleted,
		}},
		SwapStuck: {Name: "swap stuck", Allows: Read | Whole | Repair | Quarantine, Next: map[Event]State{
			SwapFailed: SwapStuck, SwapDone: Online, FramesQuarantined: QuarantinedStuck, FoundDamaged: Damaged, Deletion: Deleted,
		}},
		Cutting: {Name: "cutting", Allows: Read | Whole | Repair, Next: map[Event]State{
			CutFailed: CutStuck, CutDone: Online, Unreadable: Offline, Deletion: Deleted,
		}},
		CutStuck: {Name: "cut stuck", Allows: Read | Whole | Repair, Next: map[Event]State{
			CutFailed: CutStuck, CutDone: Online, Unreadable: Offline, Deletion: Deleted,
		}},
		Failing: {Name: "failing", Allows: Read | Whole | Start | Repair | Quarantine, Next: map[Event]State{
			SegmentFailed: Failing, FramesQuarantined: Quarantined, Mended: Online, FoundDamaged: Damaged, Deletion: Deleted,
		}},
		Quarantined: {Name: "quarantined", Allows: Read | Start | Repair | Replay, Next: map[Event]State{
			SegmentFailed: Quarantined, Replayed: Failing, FoundDamaged: Damaged, Deletion: Deleted,
		}},
		QuarantinedStuck: {Name: "quarantined, swap stuck", Allows: Read | Repair | Replay, Next: map[Event]State{
			SwapFailed: QuarantinedStuck, SwapDone: Quarantined, Deletion: Deleted,
		}},
		Offline: {Name: "offline", Allows: Repair | AsFound, Next: map[Event]State{
			Unreadable: states.Ignore, FoundDamaged: Damaged, Mended: Online, Deletion: Deleted,
		}},
		Damaged: {Name: "damaged", Allows: AsFound, Next: map[Event]State{Unreadable: states.Ignore, Deletion: Deleted}},
		// Work that was in progress at the deletion ends without effect.
		Deleted: {Name: "deleted", Allows: 0, Next: map[Event]State{
			SegmentFailed: states.Ignore, Replayed: states.Ignore, Mended: states.Ignore, SwapFailed: states.Ignore,
			SwapDone: states.Ignore, CutFailed: states.Ignore, CutDone: states.Ignore,
			Unreadable: states.Ignore, FoundDamaged: states.Ignore, Deletion: states.Ignore,
		}},
	},
)
