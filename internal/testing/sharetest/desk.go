// Package sharetest has a share coordinator for tests of leaders of share groups: the state machine
// of package sharestate without a log, with calls that tests can delay, lose and repeat. It
// does not know the leaders that call it.
package sharetest

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Desk is the share coordinator of all share partitions. All methods may be called concurrently.
type Desk struct {
	mu      sync.Mutex
	shard   *sharestate.Shard
	epoch   func(topic [16]byte, partition int32) int32
	calls   map[Kind]int
	deliver func(kind Kind, do, again, lose func())
}

// Deliver sets what is called for each call of a leader: do carries it out and answers, and again
// carries it out without an answer. lose answers that the coordinator is not available. It calls do
// or lose once, now or later, and again as often as it likes. nil: each call is carried out.
func (d *Desk) Deliver(by func(kind Kind, do, again, lose func())) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deliver = by
}

// Kind is the kind of a call.
type Kind string

// The kinds.
const (
	Peek  Kind = "peek"
	Open  Kind = "open"
	Write Kind = "write"
)

// New returns a coordinator without states. epoch returns the leader epoch of a partition in the
// metadata, -1 if it does not exist.
func New(cfg sharestate.Config, epoch func(topic [16]byte, partition int32) int32) *Desk {
	if cfg.Memory == nil {
		cfg.SnapshotUpdates, cfg.Memory = 500, coordinator.NewMemoryBudget(1<<30)
	}
	d := &Desk{shard: sharestate.New(cfg), epoch: epoch, calls: map[Kind]int{}}
	var out coordinator.Effects
	d.shard.Loaded(time.Now(), 1, &out)
	d.shard.Handle(time.Now(), 0, sharestate.TopicsChanged{Topics: d}, &out)
	return d
}

// LeaderEpoch implements sharestate.Topics.
func (d *Desk) LeaderEpoch(topic [16]byte, partition int32) int32 { return d.epoch(topic, partition) }

// GroupEpoch implements sharestate.Topics. There are no group coordinators.
func (d *Desk) GroupEpoch(string) int32 { return -1 }

// Epochs returns the leader epochs of a log that begins with one.
func Epochs(first int32) (of epochs.Cache) {
	of.Assign(first, 0)
	return of
}

// Calls returns how many calls of a kind were carried out.
func (d *Desk) Calls(kind Kind) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[kind]
}

// Initialize begins the state of a share partition; start -1: its leader decides.
func (d *Desk) Initialize(k format.Key, epoch int32, start int64) *kerr.Error {
	e := sharestate.Initialize{{Key: k, StateEpoch: epoch, Start: start, Coordinator: sharestate.AnyCoordinator}}
	return ask[[]*kerr.Error](d, e)[0]
}

// Delete removes a state.
func (d *Desk) Delete(k format.Key) {
	ask[[]*kerr.Error](d, sharestate.Delete{{Key: k, Coordinator: sharestate.AnyCoordinator}})
}

// Summary describes a stored state.
func (d *Desk) Summary(k format.Key) sharestate.Summary {
	return ask[[]sharestate.Summary](d, sharestate.Summarize{k})[0]
}

// ask carries out an event.
func ask[T any](d *Desk, event any) (response T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	events := []any{event}
	for len(events) > 0 {
		var out coordinator.Effects
		d.shard.Handle(time.Now(), 1, events[0], &out)
		events = append(events[1:], out.Deferred...)
		for _, r := range out.Replies {
			response = r.Response.(T)
		}
	}
	return response
}

// call carries out a call of a leader.
func call[T any](d *Desk, kind Kind, event any, done func(T), lost T) {
	again := func() T {
		d.mu.Lock()
		d.calls[kind]++
		d.mu.Unlock()
		return ask[T](d, event)
	}
	d.mu.Lock()
	deliver := d.deliver
	d.mu.Unlock()
	if deliver == nil {
		done(again())
		return
	}
	deliver(kind, func() { done(again()) }, func() { again() }, func() { done(lost) })
}

// Peek implements leader.Coordinator.
func (d *Desk) Peek(_ context.Context, keys []format.Key, done func([]sharestate.Peeked)) {
	call(d, Peek, sharestate.Peek(keys), done, []sharestate.Peeked{{Err: kerr.CoordinatorNotAvailable}})
}

// Open implements leader.Coordinator.
func (d *Desk) Open(_ context.Context, items []sharestate.Opening, done func([]sharestate.Opened)) {
	call(d, Open, sharestate.Open(items), done, []sharestate.Opened{{Err: kerr.CoordinatorNotAvailable}})
}

// Write implements leader.Coordinator.
func (d *Desk) Write(_ context.Context, items []sharestate.Writing, done func([]*kerr.Error)) {
	call(d, Write, sharestate.Write(items), done, []*kerr.Error{kerr.CoordinatorNotAvailable})
}
