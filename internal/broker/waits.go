package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/view"
)

// handler handles the requests of an API. answering, inBackground, onDisk, later and parks make
// one: each says where its requests wait, so that GET /v1/waits knows of every one of them.
type handler[R any] struct {
	run func(call, R)
	// waits returns where a request waits that run leaves unanswered, and for what (see
	// network.Request.WaitsAt). nil: run answers before it returns, or says it itself.
	waits waits[R]
	// elsewhere: a shard computes the answer, for which the request takes no place here.
	elsewhere bool
}

// works labels the goroutines of handlers that block.
var works = label.New("broker handler", "")

type waits[R any] func(*Handler, R) (at *network.Waiter, about string)

// answering makes a handler of a function that answers at once.
func answering[R any](answer func(*Handler, *network.Request, R) kmsg.Response) handler[R] {
	return handler[R]{run: func(c call, req R) { c.respond(answer(c.b, c.r, req)) }}
}

// inBackground makes a handler of a function that blocks: it runs on a goroutine of its own. There
// is at most one for each connection, which starts no other request in that time. ctx ends with the
// broker, and knows whose changes are made with it.
func inBackground[R any](at waits[R], answer func(context.Context, *Handler, *network.Request, R) kmsg.Response) handler[R] {
	return handler[R]{waits: at, run: func(c call, req R) {
		c.b.work.Go(func() {
			works.Set()
			c.respond(answer(c.place.context(c.b.contextOf(c.r)), c.b, c.r, req))
		})
	}}
}

// onDisk is inBackground for a function that calls file systems. They may hang, and no context ends
// their calls, so that its place lapses from the start.
func onDisk[R any](answer func(context.Context, *Handler, *network.Request, R) kmsg.Response) handler[R] {
	return inBackground(atDisk[R], func(ctx context.Context, b *Handler, r *network.Request, req R) kmsg.Response {
		ctx.Done() // see place.context
		return answer(ctx, b, r, req)
	})
}

// later makes a handler of a function that may return before it answers.
func later[R any](at waits[R], run func(call, R)) handler[R] {
	return handler[R]{run: run, waits: at, elsewhere: true}
}

// parks makes a handler of a function that records where its requests wait itself, because it uses
// their memory again or knows more of them than the request says.
func parks[R any](run func(call, R)) handler[R] { return handler[R]{run: run} }

// waiters are where requests wait that do not know more of it than their API does.
type waiters struct {
	place, disk, metadata, quorum, ids, replicas, groups, transactions *network.Waiter
	// share is of requests about share partitions, by the first one.
	share *network.Waiter
	// group is of requests about one group, members of those that wait for its members too,
	// transaction of those about one transactional id.
	group, members, transaction *network.Waiter
	// shareFetch is of fetches of share groups, shareWrite of their acknowledgements.
	shareFetch, shareWrite *network.Waiter
	// shareOperator is of operators that ask for records of a share group.
	shareOperator *network.Waiter
}

func newWaiters(b *Handler) waiters {
	fixed := func(step view.Step, reason string) *network.Waiter {
		return network.At(view.WaitStep{Step: step, For: reason})
	}
	return waiters{
		place:        fixed(view.StepPlace, "a place for work that computes for long, or memory for its large answer"),
		disk:         fixed(view.StepDisk, "a read of a log directory"),
		replicas:     fixed(view.StepReplication, "the replicas to move their log start"),
		groups:       fixed(view.StepCoordinator, "the coordinators of groups on this broker"),
		transactions: fixed(view.StepCoordinator, "the coordinators of transactions on this broker"),
		quorum:       fixed(view.StepBrokers, "the broker that leads the metadata"),
		ids:          fixed(view.StepMetadata, "a block of producer ids"),
		metadata: &network.Waiter{Steps: func(_ string, list []view.WaitStep) []view.WaitStep {
			return append(list, b.metadataStep())
		}},
		share: &network.Waiter{Named: true, Steps: func(key string, list []view.WaitStep) []view.WaitStep {
			return b.opt.Shares.Waits(key, "share partition "+view.Cut(key), list)
		}},
		group: &network.Waiter{Named: true, Steps: func(id string, list []view.WaitStep) []view.WaitStep {
			return b.opt.Groups.Waits(id, "group "+view.Cut(id), list)
		}},
		members: &network.Waiter{Named: true, Steps: func(id string, list []view.WaitStep) []view.WaitStep {
			list = append(list, view.WaitStep{Step: view.StepGroup, For: "the other members of group " + view.Cut(id)})
			return b.opt.Groups.Waits(id, "group "+view.Cut(id), list)
		}},
		transaction:   &network.Waiter{Named: true, Steps: b.transactionSteps},
		shareOperator: fixed(view.StepBrokers, "the leader of a share partition to show its records"),
		shareWrite:    fixed(view.StepCoordinator, "the share coordinator to store acknowledgements"),
		shareFetch: &network.Waiter{Idle: true, Steps: func(_ string, list []view.WaitStep) []view.WaitStep {
			return append(list, view.WaitStep{Step: view.StepRecords, For: "records that a member of a share group can acquire"})
		}},
	}
}

// metadataStep is the step of a change of the metadata.
func (b *Handler) metadataStep() view.WaitStep {
	s := view.WaitStep{Step: view.StepMetadata, For: "a change of the metadata"}
	switch leader := brokerOf(b.image(), b.opt.Cluster.Leader()); leader {
	case -1:
		s.For += ", which no broker leads that this one knows of"
	case b.opt.Self:
		s.For += ", which this broker leads"
	default:
		s.Brokers, s.For = []int32{leader}, fmt.Sprintf("%s, which broker %d leads", s.For, leader)
	}
	return s
}

// transactionSteps are the steps of a request about a transactional id: its coordinator, and the
// other brokers that have not written the markers of earlier transactions.
func (b *Handler) transactionSteps(id string, list []view.WaitStep) []view.WaitStep {
	list = b.opt.Transactions.Waits(id, "transactional id "+view.Cut(id), list)
	if b.opt.Exchange == nil {
		return list
	}
	s := view.WaitStep{Step: view.StepBrokers}
	waiting := b.opt.Exchange.Waiting()
	for _, broker := range slices.Sorted(maps.Keys(waiting)) {
		if n := waiting[broker]; n > 0 {
			s.Brokers = append(s.Brokers, broker)
		}
	}
	if len(s.Brokers) > 0 {
		s.For = fmt.Sprintf("the markers of transactions that brokers %v have not written yet", s.Brokers)
		list = append(list, s)
	}
	return list
}

// Where the requests of an API wait, for the table.

func atMetadata[R any](b *Handler, _ R) (*network.Waiter, string)     { return b.at.metadata, "" }
func atDisk[R any](b *Handler, _ R) (*network.Waiter, string)         { return b.at.disk, "" }
func atReplicas[R any](b *Handler, _ R) (*network.Waiter, string)     { return b.at.replicas, "" }
func atGroups[R any](b *Handler, _ R) (*network.Waiter, string)       { return b.at.groups, "" }
func atTransactions[R any](b *Handler, _ R) (*network.Waiter, string) { return b.at.transactions, "" }
func atQuorum[R any](b *Handler, _ R) (*network.Waiter, string)       { return b.at.quorum, "" }

// atGroup is that of requests about one group.
func atGroup[R any](group func(R) string) waits[R] {
	return func(b *Handler, req R) (*network.Waiter, string) { return b.at.group, group(req) }
}

// atTransaction is that of requests about one transactional id.
func atTransaction[R any](id func(R) string) waits[R] {
	return func(b *Handler, req R) (*network.Waiter, string) { return b.at.transaction, id(req) }
}

// atShares is that of requests about the states of share partitions.
func atShares[R any](of func(R) []format.Key) waits[R] {
	return func(b *Handler, req R) (*network.Waiter, string) {
		first := ""
		if keys := of(req); len(keys) > 0 {
			first = keys[0].Coordinator()
		}
		return b.at.share, first
	}
}

// waiting returns where the partitions of a Produce wait. It is called with the lock of its
// connection, so the op is not used again meanwhile.
func (op *produceOp) waiting(_ string, list []view.WaitStep) []view.WaitStep {
	if op.expires.Load() == notStarted {
		return list // the appends are being started, or have ended
	}
	for i := range op.parts {
		switch part := &op.parts[i]; {
		case part.part == nil:
		case part.wait != nil:
			list = part.wait.Waits(list)
		default:
			list = part.Append.Waits(list)
		}
	}
	return list
}

// parkedFetch is what a Fetch that is parked waits for. It does not change before the op is used
// again.
type parkedFetch struct {
	part     *replica.Partition
	parts    int
	minBytes int64
	until    time.Time
}

// parkedAt records what the op waits for until a time.
func (op *fetchOp) parkedAt(until time.Time) {
	op.awaits = parkedFetch{parts: len(op.parts), minBytes: op.minBytes, until: until}
	for i := range op.parts {
		if op.awaits.part = op.parts[i].part; op.awaits.part != nil {
			break
		}
	}
	op.r.WaitsAt(&op.waiter, "")
}

// waiting returns what a parked Fetch waits for. It is called with the lock of its connection, so
// the op is not used again meanwhile.
func (op *fetchOp) waiting(_ string, list []view.WaitStep) []view.WaitStep {
	w := &op.awaits
	s := view.WaitStep{Step: view.StepRecords, For: fmt.Sprintf("%d bytes of records, for another %v at most", w.minBytes,
		max(0, time.Until(w.until)).Round(time.Millisecond))}
	if w.part != nil {
		s.Partition = w.part.String()
	}
	if w.parts > 1 {
		s.For += fmt.Sprintf(", in this or %d other partitions", w.parts-1)
	}
	return append(list, s)
}
