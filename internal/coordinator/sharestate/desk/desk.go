package desk

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/outbound"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
)

// Coordinators are the share coordinators of this broker. Their methods must not block.
type Coordinators interface {
	// Topic is the name of their topic, and Image the metadata that they know.
	Topic() string
	Image() *metadata.Image
	// Partition returns the partition of the topic that has a key of format.Key.Coordinator, false
	// if there is no topic.
	Partition(key string) (int32, bool)
	// SubmitTo hands an event to the shard of a partition, see coordinator.Runtime.Submit.
	SubmitTo(partition int32, event any, done func(answer any, err error))
	// WhenCreated calls done when this broker knows the topic, which it creates if there is none.
	WhenCreated(done func(error))
}

// Options configure a Desk.
type Options struct {
	Self         int32
	Coordinators Coordinators
	// Call sends a request to another broker, whose Desk handles it, and waits for the answer. Its
	// error has the text of that of Handle. nil without a cluster.
	Call   func(ctx context.Context, broker int32, body []byte) ([]byte, error)
	Logger *zap.Logger
}

// Desk reaches the share coordinators of all brokers. Its methods may be called concurrently, and
// only Close and Handle block.
//
// The methods with items call done exactly once, from any goroutine and possibly before they
// return; done must not block. Its results are in the order of the items, which are independent.
// Items must not change before done is called. The errors are those of package sharestate, and
// COORDINATOR_NOT_AVAILABLE for an item that no coordinator has accepted or refused when ctx ended.
// Such an item may have been carried out, or may still be; the caller may repeat it.
type Desk struct {
	opt  Options
	work *outbound.Work // its end ends calls

	outcomes *outbound.Outcomes

	changed atomic.Pointer[func(sharestate.Changed)]
	inspect atomic.Pointer[func(format.Key) sharestate.Led]
	operate atomic.Pointer[Operator]
	items   atomic.Int64 // without a result
	others  atomic.Int64 // of these, those that are not of leaders
	begins  atomic.Int64 // of these, those that begin states

	mu    sync.Mutex
	peers map[int32]*peer
}

// maxItems bounds the items of all callers that have no result; further ones get
// COORDINATOR_NOT_AVAILABLE. A leader has one item for each share partition. Others, which clients
// choose, leave it half of them, and an eighth of these may begin states: they wait for memory.
const (
	maxItems  = 1 << 18
	maxOthers = maxItems / 2
	maxBegins = maxOthers / 8
)

// mostBegins is how often an item that begins a state is sent while its coordinator loads, or has
// no memory for it. Its caller repeats it later.
const mostBegins = 6

// retry bounds the pause before an item is repeated.
var retry = pause.Backoff{First: 20 * time.Millisecond, Most: time.Second}

// New returns a Desk. The caller must call Close.
func New(opt Options) *Desk {
	if opt.Logger == nil {
		opt.Logger = zap.NewNop()
	}
	work := outbound.NewWork()
	return &Desk{opt: opt, work: work, peers: map[int32]*peer{},
		outcomes: outbound.NewOutcomes(work, opt.Logger, "requests of share groups", "they are repeated")}
}

// Close ends all calls and waits for them. Later items get errors.
func (d *Desk) Close() { d.work.Close() }

// Watch sets what is notified on this broker as the leader of data partitions when stored states
// have changed in another way than by its writes. A notification may be late, repeated or lost.
// changed must not block. The last call counts.
func (d *Desk) Watch(changed func(sharestate.Changed)) { d.changed.Store(&changed) }

// WatchLeader sets what shows the share partitions of data partitions that this broker leads. Its
// error is NOT_LEADER_OR_FOLLOWER if the broker does not. inspect must not block. The last call
// counts.
func (d *Desk) WatchLeader(inspect func(format.Key) sharestate.Led) { d.inspect.Store(&inspect) }

// Operator carries out what an operator asks for a share partition whose data partition this broker
// leads: changes is false for an InspectRecords. It must not block, and calls done once. Its error
// is NOT_LEADER_OR_FOLLOWER if the broker does not lead, and nothing has changed.
type Operator func(item sharestate.Operating, changes bool, done func(sharestate.Operated))

// WatchOperator sets what carries out requests of operators. The last call counts.
func (d *Desk) WatchOperator(operate Operator) { d.operate.Store(&operate) }

// Initialize begins states, see sharestate.Initialize. The first one creates the topic.
func (d *Desk) Initialize(ctx context.Context, items []sharestate.Initializing, done func([]*kerr.Error)) {
	ask(ctx, d, items, ofInitialize, (*response).result, done)
}

// Delete removes states, see sharestate.Delete. The caller must not send it while an Initialize of
// the same share partition is under way.
func (d *Desk) Delete(ctx context.Context, items []sharestate.Deleting, done func([]*kerr.Error)) {
	ask(ctx, d, items, ofDelete, (*response).result, done)
}

// Summarize returns what administrators see of states, see sharestate.Summarize. If there is no
// topic yet, the error is INVALID_REQUEST, as for a state that does not exist.
func (d *Desk) Summarize(ctx context.Context, keys []format.Key, done func([]sharestate.Summary)) {
	ask(ctx, d, keys, about(opSummarize), (*response).summary, done)
}

// Inspect asks the leaders of data partitions for their share partitions. The error is
// UNKNOWN_TOPIC_OR_PARTITION if this broker knows no such partition.
func (d *Desk) Inspect(ctx context.Context, keys []format.Key, done func([]sharestate.Led)) {
	ask(ctx, d, keys, about(opInspect), (*response).inspected, done)
}

// InspectRecords asks the leaders of data partitions for what operators see of share partitions.
// The error is UNKNOWN_TOPIC_OR_PARTITION if this broker knows no such partition.
func (d *Desk) InspectRecords(ctx context.Context, items []sharestate.Operating, done func([]sharestate.Operated)) {
	ask(ctx, d, items, ofOperating(opLook), (*response).operated, done)
}

// Operate asks the leaders of data partitions for changes that operators want. An item that a
// leader may have got is not repeated, as it could apply to later deliveries. Its error is
// REQUEST_TIMED_OUT, also if no leader has answered when ctx ends.
func (d *Desk) Operate(ctx context.Context, items []sharestate.Operating, done func([]sharestate.Operated)) {
	ask(ctx, d, items, ofOperating(opOperate), (*response).operated, func(list []sharestate.Operated) {
		for i := range list {
			if err := list[i].Err; temporary(err) && err != kerr.CoordinatorLoadInProgress {
				list[i].Err = kerr.RequestTimedOut
			}
		}
		done(list)
	})
}

// Peek returns what a leader needs to open states, see sharestate.Peek. If there is no topic yet,
// the error is INVALID_REQUEST, as for a state that does not exist.
func (d *Desk) Peek(ctx context.Context, keys []format.Key, done func([]sharestate.Peeked)) {
	ask(ctx, d, keys, about(opPeek), (*response).peeked, done)
}

// Open loads states for the leader of their partitions, see sharestate.Open. An item that was
// repeated may get FENCED_LEADER_EPOCH because its first copy has opened the state.
func (d *Desk) Open(ctx context.Context, items []sharestate.Opening, done func([]sharestate.Opened)) {
	ask(ctx, d, items, ofOpen, (*response).opened, done)
}

// Write changes states, see sharestate.Write.
func (d *Desk) Write(ctx context.Context, items []sharestate.Writing, done func([]*kerr.Error)) {
	ask(ctx, d, items, ofWrite, (*response).result, done)
}

// Notify notifies the leader of a share partition's data partition, if there is one. The message
// may be lost.
func (d *Desk) Notify(c sharestate.Changed) {
	switch leader, _ := d.leaderOf(c.Key); {
	case leader == d.opt.Self:
		d.leaderChanged(c)
	case leader >= 0 && d.opt.Call != nil:
		d.peer(leader).queue.Add(&job{request: request{op: opChanged, key: c.Key, id: c.ID, leader: c.Leader}})
	}
}

// leaderOf returns the leader of a data partition, -1 if it has none. It reports false if there is
// no such partition.
func (d *Desk) leaderOf(k format.Key) (int32, bool) {
	t := d.opt.Coordinators.Image().TopicByID(k.Topic)
	if t == nil || k.Partition < 0 || k.Partition >= t.Partitions.Len() {
		return -1, false
	}
	return t.Partitions.At(k.Partition).Leader, true
}

func (d *Desk) leaderChanged(c sharestate.Changed) {
	if changed := d.changed.Load(); changed != nil {
		(*changed)(c)
	}
}

// asked is a request of a caller: some items.
type asked struct {
	d    *Desk
	done func() // all items have results

	mu      sync.Mutex
	results []response
	missing []*job // nil: it has its result
	left    int
	stop    func() bool // of the end of the context
}

// job is an item on its way.
type job struct {
	request
	of       *asked // nil: nothing waits for the result
	index    int    // in of
	attempts int
}

// ask sends items and collects their results.
func ask[Item, Result any](ctx context.Context, d *Desk, items []Item, convert func(Item) request, result func(*response) Result,
	done func([]Result),
) {
	a := &asked{d: d, left: len(items), results: make([]response, len(items)), missing: make([]*job, len(items))}
	a.done = func() {
		results := make([]Result, len(a.results))
		for i := range results {
			results[i] = result(&a.results[i])
		}
		done(results)
	}
	if len(items) == 0 {
		a.done()
		return
	}
	jobs := make([]job, len(items))
	for i, item := range items {
		jobs[i] = job{request: convert(item), of: a, index: i}
		a.missing[i] = &jobs[i]
	}
	list := append([]*job(nil), a.missing...)
	if d.count(jobs[0].op, int64(len(items))) {
		a.expire()
		return
	}
	stop := context.AfterFunc(ctx, a.expire)
	a.mu.Lock()
	a.stop = stop
	a.mu.Unlock()
	d.dispatch(list)
}

// count counts items of an operation, and reports whether there are too many now.
func (d *Desk) count(op op, n int64) (tooMany bool) {
	tooMany = d.items.Add(n) > maxItems
	switch op {
	case opPeek, opOpen, opWrite: // of leaders
		return tooMany
	case opInitialize:
		tooMany = d.begins.Add(n) > maxBegins || tooMany
	}
	return d.others.Add(n) > maxOthers || tooMany
}

// finish notes the result of an item; a second one has no effect.
func (a *asked) finish(j *job, r response) {
	a.mu.Lock()
	if a.missing[j.index] == nil {
		a.mu.Unlock()
		return
	}
	a.missing[j.index], a.results[j.index] = nil, r
	a.left--
	last, stop := a.left == 0, a.stop
	a.mu.Unlock()
	a.d.count(j.op, -1)
	if last {
		if stop != nil {
			stop()
		}
		a.done()
	}
}

// expire ends the items that have no result.
func (a *asked) expire() {
	a.mu.Lock()
	missing := append([]*job(nil), a.missing...)
	a.mu.Unlock()
	for _, j := range missing {
		if j != nil {
			a.finish(j, response{err: kerr.CoordinatorNotAvailable})
		}
	}
}

// over reports whether an item has its result, or needs none.
func (j *job) over() bool {
	if j.of == nil {
		return true
	}
	j.of.mu.Lock()
	defer j.of.mu.Unlock()
	return j.of.missing[j.index] == nil
}

// dispatch sends items to the coordinators, or leaders, that the metadata has now.
func (d *Desk) dispatch(list []*job) {
	if d.work.Context().Err() != nil {
		for _, j := range list {
			j.of.finish(j, response{err: kerr.CoordinatorNotAvailable})
		}
		return
	}
	t := d.opt.Coordinators.Image().Topic(d.opt.Coordinators.Topic())
	var here, later, without []*job
	for _, j := range list {
		leader, known := int32(-1), true
		switch {
		case j.op.ofLeader():
			leader, known = d.leaderOf(j.key)
		case t == nil:
			without = append(without, j)
			continue
		default:
			if d.locate(&j.request); j.at >= 0 && j.at < t.Partitions.Len() {
				leader = t.Partitions.At(j.at).Leader
			}
		}
		switch {
		case !known:
			j.of.finish(j, response{err: kerr.UnknownTopicOrPartition})
		case leader == d.opt.Self:
			here = append(here, j)
		case leader < 0 || d.opt.Call == nil || !d.peer(leader).queue.Add(j):
			later = append(later, j)
		}
	}
	d.withoutTopic(without)
	d.again(later)
	d.handOver(here)
}

// locate finds the partition of an item.
func (d *Desk) locate(q *request) {
	at, ok := d.opt.Coordinators.Partition(q.key.Coordinator())
	if q.at = at; !ok {
		q.at = -1 // no shard has that
	}
}

// withoutTopic answers items while this broker knows no topic of states. Its metadata may be
// behind: an open, a write or a delete follows something that was answered, so they wait.
func (d *Desk) withoutTopic(list []*job) {
	var create, later []*job
	for _, j := range list {
		switch j.op {
		case opPeek, opSummarize:
			j.of.finish(j, response{err: kerr.InvalidRequest})
		case opInitialize:
			create = append(create, j)
		default:
			later = append(later, j)
		}
	}
	d.again(later)
	if len(create) > 0 {
		d.opt.Coordinators.WhenCreated(func(err error) {
			if err != nil {
				d.opt.Logger.Warn("the topic of share group states cannot be created now, trying again", zap.Error(err))
			}
			d.again(create)
		})
	}
}

// handOver hands items to the coordinators of this broker.
func (d *Desk) handOver(list []*job) {
	requests := make([]*request, len(list))
	for i, j := range list {
		requests[i] = &j.request
	}
	d.submit(requests, func(of []int, results []response) {
		jobs := make([]*job, len(of))
		for i, at := range of {
			jobs[i] = list[at]
		}
		d.answered(jobs, results)
	})
}

// answered notes results, and repeats the items that no coordinator has accepted or refused.
func (d *Desk) answered(list []*job, results []response) {
	var later []*job
	for i, j := range list {
		switch {
		case j.of == nil:
		case temporary(results[i].err) && !j.gaveUp(results[i].err):
			later = append(later, j)
		default:
			j.of.finish(j, results[i])
		}
	}
	d.again(later)
}

// temporary reports whether an error is about the way to the coordinator, or about its memory.
func temporary(err *kerr.Error) bool {
	switch err {
	case kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NetworkException, kerr.RequestTimedOut,
		kerr.NotLeaderForPartition:
		return true
	}
	return false
}

// gaveUp reports whether an item that begins a state has waited long enough for memory: its caller
// repeats it, and others have its place meanwhile. Of operators' changes, only those are repeated
// that a broker has not carried out.
func (j *job) gaveUp(err *kerr.Error) bool {
	if j.op == opOperate {
		return err != kerr.NotLeaderForPartition
	}
	return j.op == opInitialize && err == kerr.CoordinatorLoadInProgress && j.attempts >= mostBegins
}

// again repeats items after a pause. Together they are one dispatch, so that they stay together.
func (d *Desk) again(list []*job) {
	most, rest := 0, list[:0:0]
	for _, j := range list {
		if !j.over() {
			j.attempts++
			most = max(most, j.attempts)
			rest = append(rest, j)
		}
	}
	if len(rest) > 0 {
		// After Close, dispatch answers the items with an error and sends nothing.
		time.AfterFunc(retry.Spread(most), func() { d.dispatch(rest) })
	}
}
