package txn

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// Config configures a Shard. DefaultConfig has Kafka's defaults.
type Config struct {
	// MaxTimeout bounds the timeout that a producer may ask for (transaction.max.timeout.ms).
	MaxTimeout time.Duration
	// Expiration is how long an id without a transaction is kept (transactional.id.expiration.ms).
	// ExpirationCheck is how often the Shard looks for such ids
	// (transaction.remove.expired.transaction.cleanup.interval.ms).
	Expiration, ExpirationCheck time.Duration
	// MaxIDs bounds the transactional ids of the Shard (transactional.id.max.per.partition).
	MaxIDs int
	// MaxPark bounds how long an InitProducerID, or an End of the next transaction, waits for the
	// end of a transaction before it gets CONCURRENT_TRANSACTIONS; 0: not at all.
	MaxPark time.Duration
	// ProducerID returns an unused producer id. It runs in a coordinator.Call and may block until
	// its context ends.
	ProducerID func(context.Context) (int64, error)
	// Decided is called when a transaction is committed or aborted, with the time since its start,
	// and Marked when all its markers are durable, with the time since the decision. Nil: nothing
	// is called. They must not block.
	Decided func(commit bool, reason Reason, open time.Duration)
	Marked  func(commit bool, took time.Duration)
	// Refused is called with the error of each marker that is going to be repeated. May be nil.
	Refused func(*kerr.Error)
	// Crowded is called when the Shard has had MaxIDs ids: it has removed ids without a
	// transaction, the last of them after the given time, or if removed is 0, has refused new ones.
	// It must not block. May be nil.
	Crowded func(removed int, idle time.Duration)
	// Overtaken is called when a partition knows a later epoch of an id's producer, which means
	// that __transaction_state lacks records. It must not block. May be nil.
	Overtaken func(id string, p Partition)
	// OpenMemory bounds the memory for the partitions of transactions that have not ended.
	OpenMemory *coordinator.MemoryBudget
	// IDMemory bounds the memory for the transactional ids themselves.
	IDMemory *coordinator.MemoryBudget
	// Broken is for tests.
	Broken Broken
}

// DefaultConfig returns Kafka's defaults, without a source of producer ids.
func DefaultConfig() Config {
	return Config{MaxTimeout: 15 * time.Minute, Expiration: 7 * 24 * time.Hour, ExpirationCheck: time.Hour,
		MaxIDs: 20_000, MaxPark: time.Second, OpenMemory: coordinator.NewMemoryBudget(16 << 20),
		IDMemory: coordinator.NewMemoryBudget(64 << 20)}
}

// Topics are the partitions of a version of the metadata. Its methods must not block.
type Topics interface {
	// Exists reports whether a partition exists. Partitions of a topic never disappear one by one.
	Exists(p Partition) bool
	// ID returns the id of a topic, zero if there is none.
	ID(topic string) [16]byte
	// Weak reports whether a topic acknowledges records before they are durable.
	Weak(topic string) bool
	// Epochs returns the leader epoch of a partition, and the newest one in which records may be
	// missing that were acknowledged before it; 0 if there was none, or no such partition exists.
	Epochs(p Partition) (leader, lossy int32)
}

// Shard holds the transactional ids of one partition of __transaction_state. It is a
// coordinator.Machine.
type Shard struct {
	cfg    Config
	epoch  int32 // the leader epoch in which it runs, and its coordinator epoch
	ids    map[string]*transaction
	memory int64  // bytes in use of cfg.OpenMemory
	named  int64  // bytes in use of cfg.IDMemory
	tagged bool   // records have tagged fields
	topics Topics // nil until the first TopicsChanged
	// asking has the ids whose transaction waits for requests to partitions. Volatile.
	asking map[string]*transaction
	tokens uint64 // the last token
	// fullUntil is when the next id may have been idle for long enough to make room. Volatile.
	fullUntil time.Time

	// Set only during an event.
	now time.Time
	out *coordinator.Effects
}

// transaction is a transactional id with its present or last transaction.
type transaction struct {
	value
	// lastEpoch is the epoch before the present one, if the producer that had it may ask for the
	// present one (KIP-360), otherwise none. Volatile, as in Kafka.
	lastEpoch int16
	// live is nil unless the transaction is open or decided. Every transition replaces it.
	// Volatile.
	live *live
	// parked are the requests that wait for the end of the transaction, in order. Volatile.
	parked []parked
	// doubtful: the log may have lost later records of the id. Its producer may have later epochs,
	// so none after the present one is given out, and its transaction may have been decided.
	doubtful bool
}

// live is the volatile state of one transaction in one state.
type live struct {
	// token names this transaction in this state in requests, so that a late result counts for
	// nothing else.
	token uint64
	// added has what the Shard knew about the partitions when they were added, in their order. It
	// is nil after a load, and short of nothing otherwise.
	added []added
	// end is the EndTxn that waits for flushes, nil for none.
	end *waitingEnd
	// missing are the partitions whose flush, or whose marker, is not durable.
	missing map[Partition]*attempt
	retryAt time.Time // of timerRetry; zero: not set
	// overtaken: a partition knows a later epoch of the producer.
	overtaken bool
}

// added is what the Shard knew about a partition when it was added to the transaction. The zero
// value, which a partition has after a load, means that nothing is known.
type added struct {
	topic [16]byte
	// since is the leader epoch that the metadata showed. What was lost in a later one may be
	// records of the transaction, so nothing may raise it.
	since int32
	weak  bool
}

type waitingEnd struct {
	to   coordinator.Ticket
	end  End
	next int64 // the producer id that the answer needs, or none
}

// attempt is a request to a partition.
type attempt struct {
	out      bool        // on the way
	topic    [16]byte    // of the partition; zero: not known
	deleted  bool        // its topic was deleted while it was on the way
	ahead    bool        // it knows a later epoch of the producer
	failures int         // in a row
	at       time.Time   // when to repeat it; zero while it is on the way
	lastFail *kerr.Error // nil: none
}

// parked is a request that waits for the end of a transaction.
type parked struct {
	to       coordinator.Ticket
	event    any
	deadline time.Time
}

// The kinds of timers. Owner is the transactional id.
const (
	timerTimeout uint8 = iota + 1 // the transaction has been open for too long
	timerRetry                    // requests to partitions are repeated
	timerParked                   // a parked request has waited for too long
	timerExpire                   // the shard looks for idle ids
)

// New returns a shard without ids.
func New(cfg Config) *Shard {
	return &Shard{cfg: cfg, ids: map[string]*transaction{}, asking: map[string]*transaction{}, tagged: true}
}

// TopicsChanged notifies the shard of the current metadata. It has no response.
type TopicsChanged struct {
	Topics Topics
	// Changed are the names of topics with a partition that was created or has a new leader.
	Changed []string
	// Tagged reports whether transaction.version is at least 1, so that records have tagged fields.
	Tagged bool
}

// complete is deferred: all markers of a transaction are durable. flushed is deferred: all flushes
// that an EndTxn waited for are durable.
type (
	complete struct {
		id    string
		token uint64
	}
	flushed struct {
		id    string
		token uint64
	}
)

// doubted is deferred: a transaction is open according to a log that may have lost its end.
type doubted struct {
	id    string
	token uint64
}

// withProducerID is the result of a call: a request with the producer id that it needs.
type withProducerID struct {
	event any
	id    int64
	err   error
}

// Writes implements coordinator.Machine.
func (s *Shard) Writes(event any) bool {
	switch event.(type) {
	case InitProducerID, Add, End, withProducerID:
		return true
	}
	return false
}

// End implements coordinator.Machine.
func (s *Shard) End() {
	s.count(-s.memory)
	s.countID(-s.named)
}

// Handle implements coordinator.Machine.
func (s *Shard) Handle(now time.Time, to coordinator.Ticket, event any, out *coordinator.Effects) {
	s.now, s.out = now, out
	switch e := event.(type) {
	case complete:
		s.complete(e)
	case flushed:
		s.flushed(e)
	case doubted:
		s.doubted(e)
	case Marked:
		s.marked(e)
	case Flushed:
		s.flushAnswered(e)
	case TopicsChanged:
		s.topicsChanged(e)
	case Describe:
		out.Reply(to, s.describe(e))
	case List:
		out.Reply(to, s.list(e))
	case Survey:
		out.Reply(to, s.survey())
	case withProducerID:
		s.resume(to, e)
	default:
		s.request(to, event, none)
	}
	s.out = nil
}

// request handles a request. pid is the producer id that a call has fetched for it, or none.
func (s *Shard) request(to coordinator.Ticket, event any, pid int64) {
	switch e := event.(type) {
	case InitProducerID:
		s.initProducerID(to, e, pid)
	case Add:
		s.add(to, e)
	case Verify:
		s.out.Reply(to, s.verify(e))
	case End:
		s.end(to, e, pid)
	default:
		s.out.Reply(to, fmt.Errorf("transaction coordinator: unknown event %T", event))
	}
}

// fetchProducerID handles a request again when it has a producer id.
func (s *Shard) fetchProducerID(to coordinator.Ticket, event any) {
	fetch := s.cfg.ProducerID
	s.out.Call(to, func(ctx context.Context) any {
		id, err := fetch(ctx)
		return withProducerID{event, id, err}
	})
}

// resume continues a request whose producer id was fetched. The state may have changed meanwhile.
func (s *Shard) resume(to coordinator.Ticket, e withProducerID) {
	if e.err != nil {
		s.out.Reply(to, Identity{Err: kerr.CoordinatorNotAvailable, ProducerID: none, Epoch: none})
		return
	}
	s.request(to, e.event, e.id)
}

// Loaded implements coordinator.Machine. Decided transactions get their markers again, the oldest
// first.
func (s *Shard) Loaded(now time.Time, epoch int32, out *coordinator.Effects) {
	s.now, s.out, s.epoch = now, out, epoch
	var decided []string
	for _, id := range slices.Sorted(maps.Keys(s.ids)) {
		t := s.ids[id]
		switch {
		case t.state == Ongoing:
			s.begin(t)
			if t.doubtful {
				out.Defer(doubted{id, t.live.token})
			}
			left := time.UnixMilli(t.start + int64(t.timeout)).Sub(now)
			s.setTimeout(id, max(min(left, t.timeLimit()), min(minTimeLeft, t.timeLimit())))
		case t.state.prepared():
			decided = append(decided, id)
		}
	}
	slices.SortFunc(decided, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ids[a].update, s.ids[b].update), cmp.Compare(a, b))
	})
	for _, id := range decided {
		if !s.cfg.Broken.Has(ForgetMarkers) {
			s.sendMarkers(id, s.ids[id])
		}
	}
	s.setTimer(timerExpire, "", s.cfg.ExpirationCheck)
	s.out = nil
}

// minTimeLeft is the least time that an open transaction gets after a load: its producer may have
// waited for a coordinator.
const minTimeLeft = 5 * time.Second

func (v *value) timeLimit() time.Duration { return time.Duration(v.timeout) * time.Millisecond }

// Fire implements coordinator.Machine.
func (s *Shard) Fire(now time.Time, key coordinator.TimerKey, out *coordinator.Effects) {
	s.now, s.out = now, out
	t := s.ids[key.Owner]
	switch {
	case key.Kind == timerExpire:
		s.expire()
	case t == nil:
	case key.Kind == timerTimeout:
		s.timeOut(key.Owner, t)
	case key.Kind == timerRetry:
		s.retry(key.Owner, t)
	case key.Kind == timerParked:
		s.expireParked(key.Owner, t)
	}
	s.out = nil
}

func (s *Shard) setTimer(kind uint8, id string, after time.Duration) {
	s.out.Set(coordinator.TimerKey{Kind: kind, Owner: id}, s.now.Add(after))
}

func (s *Shard) cancelTimer(kind uint8, id string) {
	s.out.Cancel(coordinator.TimerKey{Kind: kind, Owner: id})
}

func (s *Shard) setTimeout(id string, after time.Duration) {
	if !s.cfg.Broken.Has(NeverTimeOut) {
		s.setTimer(timerTimeout, id, after)
	}
}

// begin gives a transaction new volatile state.
func (s *Shard) begin(t *transaction) {
	s.tokens++
	t.live = &live{token: s.tokens}
}

const (
	// maxParked bounds the requests that wait for the end of one transaction: a client has a few,
	// and those of one id must not use up the requests that may wait in a shard.
	maxParked = 100
	// maxPark bounds how long a request waits, whatever its deadline: its sender may have gone.
	maxPark = 5 * time.Second
)

// park lets a request wait until the transaction ends, at most until the deadline.
func (s *Shard) park(t *transaction, id string, p parked) {
	if len(t.parked) >= maxParked {
		s.out.Reply(p.to, s.refusal(p.event, kerr.ConcurrentTransactions))
		return
	}
	if last := s.now.Add(maxPark); p.deadline.After(last) {
		p.deadline = last
	}
	t.parked = append(t.parked, p)
	s.setParkedTimer(id, t)
}

func (s *Shard) setParkedTimer(id string, t *transaction) {
	if len(t.parked) == 0 {
		s.cancelTimer(timerParked, id)
		return
	}
	first := slices.MinFunc(t.parked, func(a, b parked) int { return a.deadline.Compare(b.deadline) })
	s.out.Set(coordinator.TimerKey{Kind: timerParked, Owner: id}, first.deadline)
}

// unpark handles the parked requests of a transaction that has ended. One of them may begin the
// next one; those behind it see that.
func (s *Shard) unpark(id string, t *transaction) {
	waiting := t.parked
	if len(waiting) == 0 {
		return
	}
	t.parked = nil
	s.cancelTimer(timerParked, id)
	for _, p := range waiting {
		s.out.Split() // each may write all partitions of the transaction
		s.request(p.to, p.event, none)
	}
}

// expireParked answers the parked requests whose deadline has passed.
func (s *Shard) expireParked(id string, t *transaction) {
	t.parked = slices.DeleteFunc(t.parked, func(p parked) bool {
		if p.deadline.After(s.now) {
			return false
		}
		s.out.Reply(p.to, s.refusal(p.event, kerr.ConcurrentTransactions))
		return true
	})
	s.setParkedTimer(id, t)
}

// refusal returns the error response to a request.
func (s *Shard) refusal(event any, err *kerr.Error) any {
	if _, ok := event.(Add); ok {
		return Added{Err: err, CoordinatorEpoch: s.epoch}
	}
	return Identity{Err: err, ProducerID: none, Epoch: none}
}
