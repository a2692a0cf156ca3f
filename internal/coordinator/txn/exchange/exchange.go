package exchange

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/outbound"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
)

// Options configure an Exchange.
type Options struct {
	Self int32
	// Image returns the metadata that the coordinators of this broker know.
	Image func() *metadata.Image
	// Topic is the topic of transactional ids, and Offsets that of groups, whose markers
	// WriteOffsets takes.
	Topic, Offsets string
	// Submit hands an event to the coordinator of a transactional id on this broker, see
	// coordinator.Runtime.Submit. It must not block.
	Submit func(id string, event any, done func(answer any, err error))
	// Partition returns a partition of this broker.
	Partition func(topic [16]byte, index int32) (Partition, error)
	// WriteOffsets appends a marker to a partition of Offsets. It must not block, and calls done
	// once, when the marker and its effect on the offsets are committed.
	WriteOffsets func(index int32, m Marker, done func(error))
	// Fenced is called when a partition refuses a marker because it knows a higher coordinator
	// epoch than that of the shard, which runs in a partition of Topic. It must not block.
	Fenced func(partition, epoch, known int32)
	// Call sends a request to another broker, whose Exchange handles it, and waits for the answer.
	// nil without a cluster.
	Call   func(ctx context.Context, broker int32, body []byte) ([]byte, error)
	Logger *zap.Logger
}

// Partition is what an Exchange needs of a replica.Partition.
type Partition interface {
	Append(a *replica.Append, batch *groupcommit.Batch)
	Flush(leaderEpoch int32, pid int64, epoch int16, done func(error))
	LeaderEpoch() int32
}

// Marker is the end of a transaction.
type Marker struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	Commit           bool
	// Bumps: the producer gets a new epoch with each transaction (transaction.version 2).
	Bumps bool
	// Foreign: a tool sent it, and no coordinator.
	Foreign bool
}

// Exchange connects the coordinators and the partitions of this broker with each other and with
// those of other brokers. Its methods may be called concurrently. It implements gate.Coordinators.
type Exchange struct {
	opt Options

	work *outbound.Work // its end ends calls

	markers, questions *outbound.Outcomes

	mu      sync.Mutex
	peers   map[int32]*peer
	out     map[target]*holder // markers that have no result yet
	senders map[int32]*sender  // brokers that have sent calls
}

// New returns an Exchange. The caller must call Close.
func New(opt Options) *Exchange {
	if opt.Logger == nil {
		opt.Logger = zap.NewNop()
	}
	work := outbound.NewWork()
	return &Exchange{opt: opt, work: work, peers: map[int32]*peer{}, out: map[target]*holder{}, senders: map[int32]*sender{},
		markers:   outbound.NewOutcomes(work, opt.Logger, "transaction markers", "they are repeated"),
		questions: outbound.NewOutcomes(work, opt.Logger, "questions about transactions", "the producers try again")}
}

// Close ends all calls and waits for them. Later requests get errors.
func (x *Exchange) Close() { x.work.Close() }

// Ask implements gate.Coordinators.
func (x *Exchange) Ask(q gate.Question, done func(gate.Answer)) {
	img := x.opt.Image()
	t := img.Topic(x.opt.Topic)
	if t == nil {
		done(gate.Answer{Err: kerr.CoordinatorNotAvailable})
		return
	}
	leader := t.Partitions.At(coordinator.PartitionFor(q.ID, t.Partitions.Len())).Leader
	ok := false
	switch {
	case leader == x.opt.Self && x.work.Context().Err() == nil:
		x.askHere([]*question{{q, done}})
		ok = true
	case leader >= 0 && leader != x.opt.Self && x.opt.Call != nil:
		ok = x.peer(leader).asks.Add(&question{q, done})
	}
	if !ok {
		done(gate.Answer{Err: kerr.CoordinatorNotAvailable})
	}
}

// Send carries out a request of the transaction coordinator, a txn.WriteMarker or txn.Flush. A
// marker for a partition of this broker is committed when batch runs. See coordinator.Options.
func (x *Exchange) Send(partition, epoch int32, request any, batch *groupcommit.Batch, done func(result any)) {
	switch q := request.(type) {
	case txn.WriteMarker:
		m := Marker{ProducerID: q.ProducerID, Epoch: q.Epoch, CoordinatorEpoch: q.CoordinatorEpoch, Commit: q.Commit, Bumps: q.Version >= 2}
		x.mark(&job{order{Marker: m, partition: q.Partition}, func(v verdict) {
			if v.err == kerr.TransactionCoordinatorFenced && x.opt.Fenced != nil {
				x.opt.Fenced(partition, epoch, v.known)
			}
			done(txn.Marked{WriteMarker: q, Err: v.err})
		}}, batch)
	case txn.Flush:
		o := order{flush: true, partition: q.Partition, leaderEpoch: q.LeaderEpoch}
		o.ProducerID, o.Epoch = q.ProducerID, q.Epoch
		x.dispatch(&job{o, func(v verdict) { done(txn.Flushed{Flush: q, Err: v.err}) }}, batch)
	default: // a bug: package txn makes the requests, and nothing that was received chooses their type
		panic(fmt.Sprintf("exchange: a coordinator sends an unknown %T", request))
	}
}

// target is what has at most one marker on the way.
type target struct {
	partition txn.Partition
	producer  int64
}

// holder holds back the marker that follows one on the way.
type holder struct{ next *job }

// mark dispatches a marker, or holds it back while one of the same producer and partition is on the
// way. If another one is held back already, a machine that no longer exists has sent that.
func (x *Exchange) mark(j *job, batch *groupcommit.Batch) {
	at := target{j.partition, j.ProducerID}
	x.mu.Lock()
	h := x.out[at]
	if h == nil {
		x.out[at] = &holder{}
		x.mu.Unlock()
		x.dispatch(x.watched(at, j), batch)
		return
	}
	former := h.next
	h.next = j
	x.mu.Unlock()
	if former != nil {
		former.done(verdict{err: kerr.OperationNotAttempted})
	}
}

// watched returns a job that dispatches, when it has its result, the marker that was held back.
func (x *Exchange) watched(at target, j *job) *job {
	return &job{j.order, func(v verdict) {
		next := x.answered(at)
		j.done(v)
		if next != nil {
			var batch groupcommit.Batch
			x.dispatch(x.watched(at, next), &batch)
			batch.HandOff()
		}
	}}
}

// answered returns the marker that was held back behind one that has its result.
func (x *Exchange) answered(at target) *job {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.out[at]
	next := h.next
	if h.next = nil; next == nil {
		delete(x.out, at)
	}
	return next
}

// dispatch sends an order to the leader of its partition, which is that of the metadata now. If
// that is this broker, the caller must run the batch afterwards.
func (x *Exchange) dispatch(j *job, batch *groupcommit.Batch) {
	topic, leader, epoch, err := x.leader(j.partition)
	if j.topic = topic; !j.flush {
		j.leaderEpoch = epoch
	}
	switch {
	case err != nil:
		j.done(verdict{err: err})
	case leader == x.opt.Self && x.work.Context().Err() != nil:
		j.done(verdict{err: kerr.RequestTimedOut})
	case leader == x.opt.Self:
		x.beginOne(&j.order, batch, j.done)
	case x.opt.Call == nil:
		j.done(verdict{err: kerr.LeaderNotAvailable})
	default:
		x.peer(leader).order(j)
	}
}

// leader returns the topic and the leader of a partition, and its epoch. An unknown partition is an
// error as every other one: the coordinator knows from its own metadata which are deleted.
func (x *Exchange) leader(p txn.Partition) (topic [16]byte, leader, epoch int32, err *kerr.Error) {
	t := x.opt.Image().Topic(p.Topic)
	if t == nil || p.Index < 0 || p.Index >= t.Partitions.Len() {
		return topic, -1, -1, kerr.UnknownTopicOrPartition
	}
	part := t.Partitions.At(p.Index)
	if part.Leader < 0 {
		err = kerr.LeaderNotAvailable
	}
	return t.ID, part.Leader, part.LeaderEpoch, err
}

// WriteMarkers appends markers that a tool has sent to partitions that this broker leads. It waits
// until all are durable, or ctx ends, and returns an error for each, nil for success.
func (x *Exchange) WriteMarkers(ctx context.Context, markers []Marker, partitions []txn.Partition) []*kerr.Error {
	errs, img := make([]*kerr.Error, len(markers)), x.opt.Image()
	var list []order
	var positions []int // of the orders in errs
	for i := range markers {
		topic := partitions[i].Topic
		if metadata.IsInternal(topic) && topic != x.opt.Offsets {
			errs[i] = kerr.InvalidTopicException // a marker has no place between the records of a coordinator
			continue
		}
		o := order{Marker: markers[i], partition: partitions[i], leaderEpoch: -1}
		o.Foreign = true
		if t := img.Topic(topic); t != nil {
			o.topic = t.ID
		}
		list, positions = append(list, o), append(positions, i)
	}
	verdicts := outbound.NewCollector[verdict](len(list))
	expire := x.carryOut(list, verdicts.Set)
	verdicts.Wait(ctx, 0)
	expire()
	for k, v := range verdicts.Take(verdict{err: kerr.RequestTimedOut}) {
		errs[positions[k]] = v.err
	}
	return errs
}

// Waiting returns how many orders wait for each other broker, those on the way included.
func (x *Exchange) Waiting() map[int32]int {
	x.mu.Lock()
	peers := make([]*peer, 0, len(x.peers))
	for _, p := range x.peers {
		peers = append(peers, p)
	}
	x.mu.Unlock()
	n := make(map[int32]int, len(peers))
	for _, p := range peers {
		n[p.node] = p.orders.Waiting() + p.slowOrders.Waiting()
	}
	return n
}
