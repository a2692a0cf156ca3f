// Package purgatory keeps operations that wait for an event or a deadline.
//
// An Op is, for example, a fetch that found too few bytes. It is watched under keys. Code that
// causes an event calls Check with the key, and every operation under it may complete. An operation
// that does not complete expires at its deadline. Nothing polls.
//
// The package promises that exactly one of "TryComplete returned true", Expire and Abandon ends an
// operation. An operation watched before an event is notified of it: Watch tries again after it has
// registered the operation. No reference to an operation remains after its end. The package
// knows nothing about what operations do.
package purgatory

import (
	"sync"
	"sync/atomic"
	"time"
)

// Key is what operations wait for: an event of a partition.
type Key struct {
	Topic     [16]byte
	Partition int32
}

// AnyKey is passed to TryComplete if no single key is meant.
const AnyKey = -1

// Op is an operation that waits.
type Op interface {
	// TryComplete completes the operation if it can, and reports whether it did. i is the index,
	// among the keys passed to Watch, of the key with the event, or AnyKey; for a repeated key it
	// is the last index. TryComplete is never called again after it returned true, nor
	// concurrently with itself or Expire. It runs on the goroutine that caused the event, or on one
	// that tries many operations in a row: it must not block, and must not call Watch, Check or
	// Close.
	TryComplete(i int) bool
	// Expire completes the operation because its deadline has passed, or because the purgatory is
	// closed. It must not block, because a Check may wait for it, and must not call Check or Close.
	Expire()
}

// ClientOp is an operation that waits on behalf of a client.
type ClientOp interface {
	Op
	// Abandon completes the operation because its client is gone: it only has to release what the
	// operation holds. It must not block or call Check or Close. It runs on a goroutine of its own.
	Abandon()
}

// Client is the client that an operation waits for. OnClose calls fn, once and on another
// goroutine, when the client is gone; stop cancels that, and may be called at any time.
type Client interface {
	OnClose(fn func()) (stop func() bool)
}

const shards = 64

// Purgatory holds waiting operations. The zero value is not usable; see New. All
// methods may be called concurrently.
//
// Locks: entry.mu before shard.mu, or before mu; the latter two are leaves.
type Purgatory struct {
	shard   [shards]shard
	waiting atomic.Int64

	mu     sync.Mutex
	closed bool
	all    map[*entry]struct{}
	sweeps sync.WaitGroup // goroutines in shard.sweep; none begins when closed is set
}

// shard holds the entries that wait for some of the keys, with the index of the key in each entry's
// list.
type shard struct {
	mu   sync.Mutex
	keys map[Key]map[*entry]int
	// sweeps has the keys whose operations a goroutine is trying. The value reports whether another
	// event for the key has occurred since the goroutine began.
	sweeps map[Key]bool
}

// entry is one watched operation.
type entry struct {
	p     *Purgatory
	op    Op
	keys  []Key
	timer *time.Timer
	stop  func() bool // of Client.OnClose

	mu    sync.Mutex // serialises TryComplete and Expire
	done  bool
	ready bool // all keys are registered: the goroutine that ends the entry removes them
}

// New returns an empty purgatory, without goroutines. Every waiting operation has a timer.
func New() *Purgatory { return &Purgatory{all: map[*entry]struct{}{}} }

// Watch tries op at once. If it can't complete, it waits under the keys until a Check completes it,
// or until the deadline. After Close it expires at once.
func (p *Purgatory) Watch(op Op, deadline time.Time, keys ...Key) { p.watch(nil, op, deadline, keys) }

// WatchFor is Watch for an operation that also ends with its client.
func (p *Purgatory) WatchFor(c Client, op ClientOp, deadline time.Time, keys ...Key) {
	p.watch(c, op, deadline, keys)
}

func (p *Purgatory) watch(c Client, op Op, deadline time.Time, keys []Key) {
	if op.TryComplete(AnyKey) {
		return
	}
	e := &entry{p: p, op: op, keys: keys}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		op.Expire()
		return
	}
	p.all[e] = struct{}{}
	p.waiting.Add(1) // before the last try: the event of a Check that sees 0 is visible to that try
	p.mu.Unlock()
	for i, k := range keys {
		p.of(k).add(k, e, i)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready = true; e.done { // a Check or Close ended it before all keys were registered
		e.unregister()
		return
	}
	if op.TryComplete(AnyKey) { // an event may have come before the registration
		e.endLocked()
		return
	}
	e.timer = time.AfterFunc(time.Until(deadline), e.expire)
	if c != nil { // the operation has not ended, and can't before mu is released
		e.stop = c.OnClose(e.abandon)
	}
}

// maxInline is how many operations of a key the goroutine that caused an event tries itself. Each
// takes some µs, and the goroutine has other work.
const maxInline = 8

// Check lets every operation that waits for the key try to complete: before it returns if they are
// few, soon after on another goroutine if they are many. There is at most one such goroutine for
// each key; it also handles the events that arrive in the meantime.
func (p *Purgatory) Check(k Key) {
	if p.waiting.Load() == 0 {
		return
	}
	s := p.of(k)
	var buf [maxInline]waiter
	list, sweep := s.fewWaiters(k, buf[:0])
	for _, w := range list {
		w.e.try(w.i)
	}
	if sweep && !p.sweepSoon(s, k) {
		s.sweep(k)
	}
}

// sweepSoon starts a goroutine that sweeps. It returns false if the purgatory is closed.
func (p *Purgatory) sweepSoon(s *shard, k Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.sweeps.Go(func() { s.sweep(k) })
	}
	return !p.closed
}

// Waiting returns how many operations wait.
func (p *Purgatory) Waiting() int { return int(p.waiting.Load()) }

// Close expires all operations; later ones expire at once. It waits for the goroutines that try
// operations.
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
	p.sweeps.Wait()
}

func (p *Purgatory) of(k Key) *shard {
	return &p.shard[(uint32(k.Topic[0])^uint32(k.Topic[15])^uint32(k.Partition))%shards]
}

func (s *shard) add(k Key, e *entry, i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[Key]map[*entry]int{}
	}
	m := s.keys[k]
	if m == nil {
		m = map[*entry]int{}
		s.keys[k] = m
	}
	m[e] = i
}

func (s *shard) remove(k Key, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys[k], e)
	if len(s.keys[k]) == 0 {
		delete(s.keys, k)
	}
}

type waiter struct {
	e *entry
	i int
}

// fewWaiters appends the entries that wait for a key, or none if they are many; sweep reports
// whether the caller must start a goroutine that tries them.
func (s *shard) fewWaiters(k Key, to []waiter) (list []waiter, sweep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys[k]) <= maxInline {
		return s.listLocked(k, to), false
	}
	if _, runs := s.sweeps[k]; runs {
		s.sweeps[k] = true
		return nil, false
	}
	if s.sweeps == nil {
		s.sweeps = map[Key]bool{}
	}
	s.sweeps[k] = true
	return nil, true
}

func (s *shard) listLocked(k Key, to []waiter) []waiter {
	for e, i := range s.keys[k] {
		to = append(to, waiter{e, i})
	}
	return to
}

// sweep tries the entries that wait for a key until no new event has arrived in the meantime.
func (s *shard) sweep(k Key) {
	var list []waiter
	for {
		s.mu.Lock()
		if !s.sweeps[k] {
			delete(s.sweeps, k)
			s.mu.Unlock()
			return
		}
		s.sweeps[k] = false
		list = s.listLocked(k, list[:0])
		s.mu.Unlock()
		for _, w := range list {
			w.e.try(w.i)
		}
	}
}

func (e *entry) try(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done && e.op.TryComplete(i) {
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

func (e *entry) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done {
		e.op.(ClientOp).Abandon()
		e.endLocked()
	}
}

// endLocked removes the operation from all lists.
func (e *entry) endLocked() {
	e.done, e.op = true, nil
	if e.timer != nil {
		e.timer.Stop()
	}
	if e.stop != nil {
		e.stop()
	}
	if e.ready {
		e.unregister()
	}
	e.p.mu.Lock()
	delete(e.p.all, e)
	e.p.waiting.Add(-1)
	e.p.mu.Unlock()
}

func (e *entry) unregister() {
	for _, k := range e.keys {
		e.p.of(k).remove(k, e)
	}
}
