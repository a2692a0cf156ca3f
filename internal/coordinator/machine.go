package coordinator

import (
	"context"
	"time"
)

// Record is one record of an internal topic. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
	Producer   Producer
	// Doubtful: records after this one may have been lost, as it is from before a leader epoch that
	// began with a log that may lack some. Only in a load.
	Doubtful bool
	// Rise is positive if the cluster was restored after the record: clients may know what followed
	// it, and numbers that were given in order continue above it. It is by how much the leader
	// epoch has risen since, so it grows with each restore, and differs between two of one
	// snapshot. Only in a load.
	Rise int32
	// Marker is set if the record ends the transaction of Producer. It has no Key and no Value.
	Marker *Marker
	// Begins: the record begins an event, or a part of one that need not be atomic with the part
	// before, so a batch may begin with it. Emit sets it.
	Begins bool
}

// Marker is the end of a transaction.
type Marker struct {
	Commit           bool
	CoordinatorEpoch int32
	// Emptied: a compaction removed the marker's content, which happens only when no record of the
	// transaction is left. Commit is false and CoordinatorEpoch is -1. Only in a load.
	Emptied bool
}

// Producer is the transactional producer to whose transaction a record belongs. The zero value is
// none: the record is in a plain batch.
type Producer struct {
	ID            int64
	Epoch         int16
	Transactional bool // set unless there is no producer
}

// Size returns the approximate size of the record in a batch, in bytes.
func (r Record) Size() int {
	if r.Marker != nil {
		return markerSize
	}
	return len(r.Key) + len(r.Value) + recordOverhead
}

const (
	// recordOverhead covers lengths and deltas of a record in a batch.
	recordOverhead = 24
	// markerSize is the size of a marker, which has a batch of its own.
	markerSize = 78
)

// Ticket names a request that waits for its response. 0 is no request.
type Ticket uint64

// TimerKey names a timer of a machine. The machine defines Kind; Owner and Part name the timer's
// owner, such as a group and its member.
type TimerKey struct {
	Kind        uint8
	Owner, Part string
}

// Timer sets or cancels a timer.
type Timer struct {
	Key TimerKey
	At  time.Time // zero: cancel
}

// Reply is the response to a ticket.
type Reply struct {
	To       Ticket
	Response any
}

// Call is work that a machine asks another component to do, or itself if it takes long. Do runs on
// a goroutine of its own, and begins after the calls that the machine asked for earlier. It must
// not read machine state that changes, and calls Pause if it may take long. ctx ends with the
// machine and with Client, the client that waits for it (nil: none does); Do must then return soon,
// and its result must say so. Handle gets the result as an event, with To as the ticket. If To is
// not 0 and the result writes, the request may be refused instead.
type Call struct {
	To     Ticket
	Client context.Context
	Do     func(ctx context.Context) any
}

// Effects are the results of an event. A machine appends to them; the runtime empties them after
// every event, so a machine must not keep the slices.
type Effects struct {
	// Records are already applied to the machine, in this order.
	Records []Record
	// Replies are sent AFTER all records emitted so far are committed.
	Replies []Reply
	// Timers take effect at once, in this order.
	Timers []Timer
	// Calls begin in this order, whether or not the records are committed.
	Calls []Call
	// Sends leave the machine, in this order, AFTER all records emitted so far are committed.
	Sends []any
	// Deferred are events for the machine itself, in this order.
	Deferred []any

	split bool // the next record need not be atomic with those before
}

// Emit appends a record that the machine has applied.
func (e *Effects) Emit(r Record) {
	r.Begins = e.split || len(e.Records) == 0
	e.split = false
	e.Records = append(e.Records, r)
}

// Split declares that the records that follow need not be atomic with those before. An event whose
// records are not bounded by a few MiB must call it: a batch that no replication frame can carry
// would stop the shard for good.
func (e *Effects) Split() { e.split = true }

// Reply answers a ticket. It ignores ticket 0 and a second response to a ticket.
func (e *Effects) Reply(to Ticket, response any) {
	if to != 0 {
		e.Replies = append(e.Replies, Reply{To: to, Response: response})
	}
}

// Set sets a timer and replaces one with the same key.
func (e *Effects) Set(k TimerKey, at time.Time) { e.Timers = append(e.Timers, Timer{Key: k, At: at}) }

// Cancel cancels a timer, if it is set.
func (e *Effects) Cancel(k TimerKey) { e.Timers = append(e.Timers, Timer{Key: k}) }

// Call asks for a call. A request that waits for it must not be answered in this event.
func (e *Effects) Call(to Ticket, do func(ctx context.Context) any) {
	e.Calls = append(e.Calls, Call{To: to, Do: do})
}

// CallFor is Call for a request of a client, and ends with it.
func (e *Effects) CallFor(client context.Context, to Ticket, do func(ctx context.Context) any) {
	e.Calls = append(e.Calls, Call{To: to, Client: client, Do: do})
}

// Send sends a request to another component, see Options.Send. Like a response, it leaves only
// when all records emitted so far are committed, so that nothing outside the machine acts on a
// state that could still be rolled back. The result arrives as an event without a ticket. A request
// that was not sent when the machine is discarded is dropped, and so is the result of one that was:
// the machine's successor must ask again.
func (e *Effects) Send(request any) { e.Sends = append(e.Sends, request) }

// Defer hands the machine an event without a ticket that may emit records. It waits while the log
// accepts no records. A machine defers what it has to write because of an event that can't be
// refused, such as the result of a Send.
func (e *Effects) Defer(event any) { e.Deferred = append(e.Deferred, event) }

// reset empties the effects and drops the references in them.
func (e *Effects) reset() {
	clear(e.Records)
	clear(e.Replies)
	clear(e.Calls)
	clear(e.Sends)
	clear(e.Deferred)
	e.Records, e.Replies, e.Timers, e.Calls = e.Records[:0], e.Replies[:0], e.Timers[:0], e.Calls[:0]
	e.Sends, e.Deferred, e.split = e.Sends[:0], e.Deferred[:0], false
}

// Machine is the state of one shard. It does no I/O, starts no goroutine and reads no clock. Its
// methods are never called concurrently.
//
// A machine has two kinds of state. Only records change replicated state, with the same function
// whether the record was just emitted or is read during a load. Volatile state (waiting requests,
// timers) may change in any way and is lost in a reload.
type Machine interface {
	// Apply applies a record read during a load. An error ends the load: the shard stays
	// unavailable, and the error is logged, rather than work on incomplete state.
	Apply(r Record) error
	// Loaded is called once, after the last record of a load, with the leader epoch in which the
	// machine runs. It sets timers and emits no records. A timer that the machine's predecessor
	// also had keeps the time it had left: a reload gives no member a new session.
	Loaded(now time.Time, epoch int32, out *Effects)
	// Writes reports whether Handle may emit records for an event. Such an event is refused while
	// the log accepts no records.
	Writes(event any) bool
	// Handle handles an event. It answers the ticket to now, or in the effects of a later event.
	// For an event without a ticket it must emit no records unless it has deferred that event,
	// because such an event can't be refused.
	Handle(now time.Time, to Ticket, event any, out *Effects)
	// Fire handles a timer that is due. No timer fires while the log accepts no records.
	Fire(now time.Time, key TimerKey, out *Effects)
	// End is called exactly once, last, when the machine is discarded, loaded or not.
	End()
}
