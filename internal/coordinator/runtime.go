package coordinator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/share"
)

// Options configure a Runtime. Zero numbers get the defaults below.
type Options struct {
	// New makes an empty machine for a partition, before every load.
	New func(partition int32) Machine
	// InitialEvent, if it is set, makes the event that a machine gets right after it is loaded,
	// before any request. A loading shard misses what Announce says, so the event must include
	// everything that earlier calls of it said.
	InitialEvent func(partition int32) any
	// Send carries out a request of a machine, see Effects.Send. epoch is the leader epoch in which
	// the machine runs. What Send appends shares batch, which the runtime runs soon. Send must not
	// block. It calls done exactly once, from any goroutine and possibly before it returns.
	// Required if machines send requests.
	Send func(partition, epoch int32, request any, batch *groupcommit.Batch, done func(result any))
	// MaxWaiting bounds the unanswered requests per shard; further ones get ErrBusy.
	MaxWaiting int
	// MaxBatchBytes is the size from which a batch accepts no further requests; timers may
	// fill it up to twice that. The records of one event are in one batch, however
	// large, unless the machine splits them.
	MaxBatchBytes int
	// MaxInFlight bounds the unfinished appends per shard. Records that arrive meanwhile collect in
	// the next batch.
	MaxInFlight int
	// Places are taken by the calls of all shards. Default: places of the runtime alone.
	Places *share.Places
	// Serves is what is unavailable without a machine, in the plural, for lines of the log. The
	// default is "keys".
	Serves string
	Logger *zap.Logger
}

const (
	defaultMaxWaiting    = 1 << 16
	defaultMaxBatchBytes = 1 << 20
	// Two: the next batch is queued while the journal syncs the current one, so the journal never
	// waits for a batch, and no batch waits for two others.
	defaultMaxInFlight = 2

	// Bounds of the pause after a failed load, and after a failed append.
	firstPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
)

var backoff = pause.Backoff{First: firstPause, Most: mostPause}

// Runtime runs the shards of one internal topic. All methods may be called concurrently, and only
// Close blocks.
type Runtime struct {
	opt  Options
	ctx  context.Context // ends loads at Close
	stop context.CancelFunc
	work sync.WaitGroup // shards' goroutines and loads

	workers *workers // run shards

	limited *zap.Logger // for lines about appends

	announced atomic.Uint64 // calls of Announce

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
	if opt.Places == nil {
		opt.Places = share.New().Of(share.Calls)
	}
	if opt.Serves == "" {
		opt.Serves = "keys"
	}
	if opt.Logger == nil {
		opt.Logger = zap.NewNop()
	}
	r := &Runtime{opt: opt, shards: map[int32]*shard{}, limited: limited(opt.Logger)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.workers = newWorkers(r.ctx, &r.work)
	return r
}

// Lead starts to lead a partition in a leader epoch: the runtime loads its shard from the log. An
// epoch that is not larger than the last one passed to Lead or Resign is ignored.
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

// Resign ends the leadership of a partition. epoch is that of the new leader.
func (r *Runtime) Resign(partition, epoch int32) {
	if s := r.shard(partition); s != nil {
		s.post(func() { s.resign(epoch) })
	}
}

// Remove removes a partition. If one with the same number is created later, its epochs start again.
func (r *Runtime) Remove(partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.shards[partition]; s != nil {
		s.close()
		delete(r.shards, partition)
	}
}

// Submit hands an event to a partition's machine. It calls done exactly once, from any goroutine
// and possibly before it returns; done must not block. done gets the machine's response when that
// is committed, or ErrNotCoordinator, ErrLoading, ErrRefused or ErrBusy. After ErrNotCoordinator
// the event may or may not have taken effect.
func (r *Runtime) Submit(partition int32, event any, done func(response any, err error)) {
	s := r.shard(partition)
	if s == nil {
		done(nil, ErrNoShard)
		return
	}
	s.submit(event, done)
}

// Broadcast hands an event without a response to every loaded machine.
func (r *Runtime) Broadcast(event any) {
	r.toAll(func(s *shard) { s.notify(event) })
}

// Announce is Broadcast of a state of which other machines learn from Options.InitialEvent. Calls
// must not overlap. A machine never gets a state older than that of its initial event.
func (r *Runtime) Announce(event any) {
	n := r.announced.Add(1)
	r.toAll(func(s *shard) {
		if n > s.knows {
			s.notify(event)
		}
	})
}

func (r *Runtime) toAll(do func(*shard)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range r.shards {
		s.post(func() { do(s) })
	}
}

// Stats returns the current figures of all shards, in no order.
func (r *Runtime) Stats() []Stats {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Stats, 0, len(r.shards))
	for _, s := range r.shards {
		list = append(list, s.stats())
	}
	return list
}

// StatsOf returns the current figures of a partition's shard, false if there is none.
func (r *Runtime) StatsOf(partition int32) (Stats, bool) {
	s := r.shard(partition)
	if s == nil {
		return Stats{State: idle.String()}, false
	}
	return s.stats(), true
}

// Stop answers all waiting and future requests with ErrNotCoordinator and cancels loads. It does
// not block.
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

// Close stops the runtime and waits for all goroutines, including loads that are blocked on a disk.
// It does not wait for appends in flight.
func (r *Runtime) Close() {
	r.Stop()
	r.work.Wait()
}

func (r *Runtime) shard(partition int32) *shard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shards[partition]
}
