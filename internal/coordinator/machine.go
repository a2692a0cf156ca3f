package coordinator

import (
	"context"
	"time"
)

// Record is one record of an internal topic. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Size is about how many bytes the record takes in a batch.
func (r Record) Size() int { return len(r.Key) + len(r.Value) + recordOverhead }

// recordOverhead covers lengths and deltas of a record in a batch.
const recordOverhead = 24

// Ticket names a request that waits for its answer. 0 is none: an event that
// nobody waits for.
type Ticket uint64

// TimerKey names a timer of a machine. Kind is the machine's own numbering; Owner
// and Part say whose timer it is, such as a group and its member.
type TimerKey struct {
	Kind        uint8
	Owner, Part string
}

// Timer sets or cancels a timer.
type Timer struct {
	Key TimerKey
	At  time.Time // zero: cancel
}

// Reply is the answer to a ticket.
type Reply struct {
	To       Ticket
	Response any
}

// Call is something that a machine asks of another component, or of itself where it takes
// long. Do runs on a goroutine of its own, after the calls that the machine asked for
// before, and must use nothing of the machine that changes; ctx ends with the machine.
// What it returns is handed to Handle as an event, with To as the ticket. Where To is not
// 0 and the result writes, the request may be refused instead.
type Call struct {
	To Ticket
	Do func(ctx context.Context) any
}

// Effects are what came of an event. A machine appends to them; the runtime
// empties them after every event, so a machine keeps none of the slices.
type Effects struct {
	// Records have been applied to the machine already, in this order.
	Records []Record
	// Replies go out AFTER all records so far are committed.
	Replies []Reply
	// Timers take effect at once, in this order.
	Timers []Timer
	// Calls are made in this order, whether or not the records are committed.
	Calls []Call
}

// Emit appends a record, which the machine has applied.
func (e *Effects) Emit(r Record) { e.Records = append(e.Records, r) }

// Reply answers a ticket; 0 is ignored. A second answer to a ticket is too.
func (e *Effects) Reply(to Ticket, response any) {
	if to != 0 {
		e.Replies = append(e.Replies, Reply{To: to, Response: response})
	}
}

// Set sets a timer, in place of one with the same key.
func (e *Effects) Set(k TimerKey, at time.Time) { e.Timers = append(e.Timers, Timer{Key: k, At: at}) }

// Cancel cancels a timer; one that is not set is none to cancel.
func (e *Effects) Cancel(k TimerKey) { e.Timers = append(e.Timers, Timer{Key: k}) }

// Call asks for something. A request that waits for it is not answered in this event.
func (e *Effects) Call(to Ticket, do func(ctx context.Context) any) {
	e.Calls = append(e.Calls, Call{To: to, Do: do})
}

// reset empties the effects and drops what they refer to.
func (e *Effects) reset() {
	clear(e.Records)
	clear(e.Replies)
	clear(e.Calls)
	e.Records, e.Replies, e.Timers, e.Calls = e.Records[:0], e.Replies[:0], e.Timers[:0], e.Calls[:0]
}

// Machine is the state of one shard. It does no I/O, starts no goroutine and reads
// no clock. Its methods are never called concurrently.
//
// State of two kinds: replicated state changes by applying records only, with the
// same function whether the record was just emitted or is read at load; volatile
// state (who waits, timers) may change anyhow and is lost at a reload.
type Machine interface {
	// Apply applies a record read at load. An error ends the load: the shard stays
	// unavailable, loudly, rather than work on half a state.
	Apply(r Record) error
	// Loaded is called once, after the last record of a load. It sets timers and emits
	// no records. A timer that the machine before it had as well keeps the time that was
	// left: a reload gives no member a new session.
	Loaded(now time.Time, out *Effects)
	// Writes reports whether Handle may emit records for an event. Such an event is
	// refused while the log takes no records.
	Writes(event any) bool
	// Handle takes an event. to is answered now, or in the effects of a later event. An
	// event that has no answer emits no records: it can't be refused. A machine that
	// has something to write because of it sets a timer.
	Handle(now time.Time, to Ticket, event any, out *Effects)
	// Fire takes a timer that was set, whose time has come. None fires while the log
	// takes no records.
	Fire(now time.Time, key TimerKey, out *Effects)
	// End is called once, last, when the machine is thrown away, loaded or not.
	End()
}
