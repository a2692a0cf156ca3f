// Package purgatory keeps operations that wait for an event or a deadline.
//
// A fetch that found too few bytes, later a join that waits for members, is an
// Op. It is watched under keys; whoever makes an event calls Check with the
// key, and every operation there gets the chance to complete. One that doesn't
// is expired at its deadline. Nothing polls.
//
// It promises that exactly one of "TryComplete returned true" and Expire ends
// an operation, and that an operation watched before an event hears of it: Watch
// tries once more after it has registered. It knows nothing of what operations do.
package purgatory

import (
	"sync"
	"sync/atomic"
	"time"
)

// Key is what operations wait for: something that happens to a partition.
type Key struct {
	Topic     [16]byte
	Partition int32
}

// Op is an operation that waits.
type Op interface {
	// TryComplete completes the operation if it can, and says whether it did. It
	// is never called again after it returned true, nor at the same time as
	// itself or Expire. It must not block, and must not call Watch.
	TryComplete() bool
	// Expire completes the operation because its deadline has passed, or because
	// the purgatory is closed.
	Expire()
}

const shards = 64

// Purgatory holds waiting operations. The zero value is not usable; see New.
type Purgatory struct {
	shard   [shards]shard
	waiting atomic.Int64

	mu     sync.Mutex
	closed bool
	all    map[*entry]struct{}
}

type shard struct {
	mu   sync.Mutex
	keys map[Key]map[*entry]struct{}
}

// entry is one watched operation.
type entry struct {
	p     *Purgatory
	op    Op
	keys  []Key
	timer *time.Timer

	mu   sync.Mutex // serialises TryComplete and Expire
	done bool
}

// New returns an empty purgatory.
func New() *Purgatory { return &Purgatory{all: map[*entry]struct{}{}} }

// Watch tries op at once; if it can't complete, it waits under the keys until a
// Check lets it, or until the deadline. After Close it expires at once.
func (p *Purgatory) Watch(op Op, deadline time.Time, keys ...Key) {
	e := &entry{p: p, op: op, keys: keys}
	if op.TryComplete() {
		return
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		op.Expire()
		return
	}
	p.all[e] = struct{}{}
	p.mu.Unlock()
	p.waiting.Add(1)
	for _, k := range keys {
		s := p.of(k)
		s.mu.Lock()
		if s.keys == nil {
			s.keys = map[Key]map[*entry]struct{}{}
		}
		if s.keys[k] == nil {
			s.keys[k] = map[*entry]struct{}{}
		}
		s.keys[k][e] = struct{}{}
		s.mu.Unlock()
	}
	e.mu.Lock()
	if !e.done {
		e.timer = time.AfterFunc(time.Until(deadline), e.expire)
	}
	e.mu.Unlock()
	e.try() // an event may have passed between the first try and the registration
}

// Check gives every operation that waits for the key the chance to complete.
func (p *Purgatory) Check(k Key) {
	if p.waiting.Load() == 0 {
		return
	}
	s := p.of(k)
	s.mu.Lock()
	waiting := s.keys[k]
	if len(waiting) == 0 {
		s.mu.Unlock()
		return
	}
	list := make([]*entry, 0, len(waiting))
	for e := range waiting {
		list = append(list, e)
	}
	s.mu.Unlock()
	for _, e := range list {
		e.try()
	}
}

// Waiting returns how many operations wait.
func (p *Purgatory) Waiting() int { return int(p.waiting.Load()) }

// Close expires all operations; later ones expire at once.
func (p *Purgatory) Close() {
	p.mu.Lock()
	p.closed = true
	list := make([]*entry, 0, len(p.all))
	for e := range p.all {
		list = append(list, e)
	}
	p.mu.Unlock()
	for _, e := range list {
		e.expire()
	}
}

func (p *Purgatory) of(k Key) *shard {
	return &p.shard[(uint32(k.Topic[0])^uint32(k.Topic[15])^uint32(k.Partition))%shards]
}

func (e *entry) try() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done && e.op.TryComplete() {
		e.endLocked()
	}
}

func (e *entry) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done {
		e.op.Expire()
		e.endLocked()
	}
}

// endLocked takes the operation out of all lists.
func (e *entry) endLocked() {
	e.done = true
	if e.timer != nil {
		e.timer.Stop()
	}
	for _, k := range e.keys {
		s := e.p.of(k)
		s.mu.Lock()
		delete(s.keys[k], e)
		if len(s.keys[k]) == 0 {
			delete(s.keys, k)
		}
		s.mu.Unlock()
	}
	e.p.mu.Lock()
	delete(e.p.all, e)
	e.p.mu.Unlock()
	e.p.waiting.Add(-1)
}
