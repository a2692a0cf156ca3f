package coordinator

import (
	"context"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options are what a Runtime needs. Zero numbers get the defaults below.
type Options struct {
	// New makes an empty machine for a partition, before every load.
	New func(partition int32) Machine
	// Hello, where it is set, makes the event that a machine is handed right after
	// it is loaded, before any request. What Broadcast announced while the shard was
	// loading is lost, so Hello must show whatever a Broadcast that has been called
	// announces.
	Hello func(partition int32) any
	// MaxWaiting bounds the requests per shard that have no answer yet; further ones
	// get ErrBusy.
	MaxWaiting int
	// MaxBatchBytes is where a batch of several events' records ends. The records of
	// one event are one batch however large.
	MaxBatchBytes int
	// MaxInFlight bounds the appends per shard that have not ended. What comes
	// meanwhile is gathered in the next batch.
	MaxInFlight int
	// MaxCalls bounds the calls of all shards that are made at a time.
	MaxCalls int
	Logger   *zap.Logger
}

const (
	defaultMaxWaiting    = 1 << 16
	defaultMaxBatchBytes = 1 << 20
	// Two: while one is being synced the next is on its way, so that the journal
	// never waits for a batch and a batch never for a third.
	defaultMaxInFlight = 2

	// A load that failed is tried again after minRetry, later at most maxRetry; an append
	// that failed is followed by no other for as long.
	minRetry = 100 * time.Millisecond
	maxRetry = 10 * time.Second
)

// Runtime runs the shards of one internal topic. All methods may be called
// concurrently, and only Close blocks.
type Runtime struct {
	opt  Options
	ctx  context.Context // ends loads at Close
	stop context.CancelFunc
	work sync.WaitGroup // shards' goroutines and loads

	slots chan struct{} // one for each call that is being made

	refused, opened, broken digest // what is logged of appends

	mu     sync.RWMutex
	closed bool
	shards map[int32]*shard
}

// NewRuntime returns a runtime that leads nothing.
func NewRuntime(opt Options) *Runtime {
	if opt.MaxWaiting <= 0 {
		opt.MaxWaiting = defaultMaxWaiting
	}
	if opt.MaxBatchBytes <= 0 {
		opt.MaxBatchBytes = defaultMaxBatchBytes
	}
	if opt.MaxInFlight <= 0 {
		opt.MaxInFlight = defaultMaxInFlight
	}
	if opt.MaxCalls <= 0 {
		opt.MaxCalls = max(1, runtime.GOMAXPROCS(0)/2) // requests need processors, too
	}
	if opt.Logger == nil {
		opt.Logger = zap.NewNop()
	}
	r := &Runtime{opt: opt, shards: map[int32]*shard{}, slots: make(chan struct{}, opt.MaxCalls)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// Lead says that this broker leads a partition since a leader epoch: its shard is
// loaded from the log. The same or an older epoch than the last one, of Lead or
// Resign, changes nothing.
func (r *Runtime) Lead(partition, epoch int32, log Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	s := r.shards[partition]
	if s == nil {
		s = newShard(r, partition)
		r.shards[partition] = s
	}
	s.post(func() { s.lead(epoch, log) })
}

// Resign says that since a leader epoch, that of the successor, this broker does not
// lead a partition.
func (r *Runtime) Resign(partition, epoch int32) {
	if s := r.shard(partition); s != nil {
		s.post(func() { s.resign(epoch) })
	}
}

// Remove says that a partition is gone. Should one of that number come again, its
// epochs start anew.
func (r *Runtime) Remove(partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.shards[partition]; s != nil {
		s.close()
		delete(r.shards, partition)
	}
}

// Submit hands an event to a partition's machine. done is called exactly once,
// from any goroutine, maybe before Submit returns, and must not block: with the
// machine's answer once that is committed, or with ErrNotCoordinator, ErrLoading
// ErrRefused or ErrBusy. After ErrNotCoordinator the event may or may not have had its effect.
func (r *Runtime) Submit(partition int32, event any, done func(response any, err error)) {
	s := r.shard(partition)
	if s == nil {
		done(nil, ErrNotCoordinator)
		return
	}
	s.submit(event, done)
}

// Broadcast hands an event to every machine that is loaded. Nobody answers. Those
// that are not loaded learn of it by Options.Hello.
func (r *Runtime) Broadcast(event any) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range r.shards {
		s.post(func() { s.notify(event) })
	}
}

// Partitions are those that this broker leads or has led, in no order. A request
// for all groups goes to each; those that answer ErrNotCoordinator have none.
func (r *Runtime) Partitions() []int32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]int32, 0, len(r.shards))
	for p := range r.shards {
		list = append(list, p)
	}
	return list
}

// Stats are the shards' figures as of now, in no order.
func (r *Runtime) Stats() []Stats {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Stats, 0, len(r.shards))
	for _, s := range r.shards {
		list = append(list, s.stats())
	}
	return list
}

// Stop answers everything that waits, and comes, with ErrNotCoordinator, and ends loads. It
// waits for nothing.
func (r *Runtime) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for _, s := range r.shards {
		s.close()
	}
	r.stop()
}

// Close is Stop, and waits for all goroutines: a load may stand on a disk. Appends in flight
// end on their own.
func (r *Runtime) Close() {
	r.Stop()
	r.work.Wait()
}

func (r *Runtime) shard(partition int32) *shard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shards[partition]
}
