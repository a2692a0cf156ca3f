// Package purgatory keeps operations that wait for an event or a deadline.
//
// A fetch that found too few bytes, later a join that waits for members, is an
// Op. It is watched under keys; whoever makes an event calls Check with the
// key, and every operation there gets the chance to complete. One that doesn't
// is expired at its deadline. Nothing polls.
//
// It promises that exactly one of "TryComplete returned true", Expire and Abandon ends
// an operation, that an operation watched before an event hears of it (Watch
// tries once more after it has registered), and that nothing refers to an
// operation that has ended. It knows nothing of what operations do.
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

// Everything is what TryComplete gets when no single key is meant.
const Everything = -1

// Op is an operation that waits.
type Op interface {
	// TryComplete completes the operation if it can, and says whether it did. i is
	// the position, among the keys given to Watch, of the one that something
	// happened to, or Everything; where a key was given twice it is the last one's.
	// It is never called again after it returned true, nor at the same time as
	// itself or Expire. It runs on the goroutine that made the event, or on the one that tries
	// many operations in a row: it must not block, and must not call Watch or Close.
	TryComplete(i int) bool
	// Expire completes the operation because its deadline has passed, or because
	// the purgatory is closed. It must not block either: a Check waits for it.
	Expire()
}

// ClientOp is an operation that waits on behalf of a client.
type ClientOp interface {
	Op
	// Abandon completes the operation because its client is gone: there is nothing left to
	// do but to release what it holds. It must not block. It runs on a goroutine of its own.
	Abandon()
}

// Client is who an operation waits for. OnClose has fn called, once and on another
// goroutine, when the client is gone; stop takes that back, and may be called at any time.
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
}

// shard has, for some of the keys, the entries that wait for them and the
// position of the key in each entry's list.
type shard struct {
	mu   sync.Mutex
	keys map[Key]map[*entry]int
	// sweeps has the keys of which a goroutine tries the operations, and whether something
	// has happened to the key since it began.
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
	ready bool // all keys are registered: whoever ends the entry takes them out
}

// New returns an empty purgatory. It starts no goroutine before one is needed; every waiting
// operation has a timer.
func New() *Purgatory { return &Purgatory{all: map[*entry]struct{}{}} }

// Watch tries op at once; if it can't complete, it waits under the keys until a
// Check lets it, or until the deadline. After Close it expires at once.
func (p *Purgatory) Watch(op Op, deadline time.Time, keys ...Key) { p.watch(nil, op, deadline, keys) }

// WatchFor is Watch for an operation that ends with its client, too.
func (p *Purgatory) WatchFor(c Client, op ClientOp, deadline time.Time, keys ...Key) {
	p.watch(c, op, deadline, keys)
}

func (p *Purgatory) watch(c Client, op Op, deadline time.Time, keys []Key) {
	if op.TryComplete(Everything) {
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
	p.waiting.Add(1) // before the last try: a Check that sees 0 made its event before
	p.mu.Unlock()
	for i, k := range keys {
		p.of(k).add(k, e, i)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready = true; e.done { // a Check or Close ended it before all keys were there
		e.unregister()
		return
	}
	if op.TryComplete(Everything) { // an event may have passed before the registration
		e.endLocked()
		return
	}
	e.timer = time.AfterFunc(time.Until(deadline), e.expire)
	if c != nil { // it is there: the operation has not ended, and can't before mu is free
		e.stop = c.OnClose(e.abandon)
	}
}

// atOnce is how many operations of a key the goroutine that made an event tries itself. It
// has others to serve, and each takes some µs.
const atOnce = 8

// Check gives every operation that waits for the key the chance to complete: before it
// returns where they are few, and soon after on a goroutine of its own where they are many.
// There is one such goroutine for each key at most; what happens meanwhile it sees.
func (p *Purgatory) Check(k Key) {
	if p.waiting.Load() == 0 {
		return
	}
	s := p.of(k)
	var room [atOnce]waiter
	list, sweep := s.few(k, room[:0])
	for _, w := range list {
		w.e.try(w.i)
	}
	if sweep {
		go s.sweep(k)
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

// few appends who waits for a key, as of now, or none where they are many; sweep reports
// whether the caller is to start a goroutine that tries them.
func (s *shard) few(k Key, to []waiter) (list []waiter, sweep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys[k]) <= atOnce {
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

// sweep tries who waits for a key, until nothing has happened to it meanwhile.
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

// endLocked takes the operation out of all lists.
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
