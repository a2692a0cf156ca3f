package bufpool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Shares is a budget that origins share, for bytes that their holders may keep for long: an origin
// has at most half of what the others leave. So the first one may have half of the bytes, and a few
// of them leave some to the next. Beyond that, an origin that has nothing gets what it needs, one
// origin at a time, so that each wait ends when holders return their bytes. An eighth of the bytes
// is for callers who need few, who queue apart from those who need more.
//
// New holders of an origin, who have not shown that they return bytes, leave an eighth of its part
// to its others, who do not wait behind them. If these have nothing, one of them gets what it needs
// like an origin that has nothing.
//
// The callers of a queue are served first come, first served. If several origins wait, the one that
// has the least is the next.
//
// What Try and Take return must be returned with Return, on every path. A Shares must not be
// copied; its methods are safe for concurrent use, and only Take blocks.
type Shares[K comparable] struct {
	size, small int64

	mu    sync.Mutex
	used  int64
	of    map[K]*sharer // those that have or want bytes
	alone [kinds]struct {
		of  *sharer // whose holders have more than their part; nil: none have
		new bool    // its new holders
	}
	turns uint64
	stats BudgetStats
}

// Holder is who takes bytes for an origin.
type Holder[K comparable] struct {
	Origin K
	New    bool // it has not shown that it returns them
}

// smallPart is the part of a Shares for callers who need few bytes, and that of an origin for those
// who are not new.
const smallPart = 8

// The kinds of callers: those who need few bytes, and the others. The queue of a kind is that of
// its number, and kinds more for new holders.
const (
	few = iota
	many
	kinds
	queues = 2 * kinds
)

// sharer is what one origin has and wants.
type sharer struct {
	held    int64
	fresh   int64 // of these, those of new holders
	waiting [queues][]*taker
}

func (o *sharer) waits() bool {
	return slices.ContainsFunc(o.waiting[:], func(q []*taker) bool { return len(q) > 0 })
}

// has returns the bytes of an origin's new holders, or of its others.
func (o *sharer) has(fresh bool) int64 {
	if fresh {
		return o.fresh
	}
	return o.held - o.fresh
}

// taker is a caller that waits in Take.
type taker struct {
	most, least int64
	turn        uint64
	granted     int64
	ready       chan struct{} // closed when the bytes are granted
}

// NewShares returns a budget of size bytes; less than one counts as one. A caller needs few bytes
// if these are at most small.
func NewShares[K comparable](size, small int64) *Shares[K] {
	return &Shares[K]{size: max(size, 1), small: small, of: make(map[K]*sharer)}
}

// queue returns the queue of a caller who needs least bytes.
func (s *Shares[K]) queue(by Holder[K], least int64) int {
	queue := few
	if least > s.small {
		queue = many
	}
	if by.New {
		queue += kinds
	}
	return queue
}

// Try takes up to most bytes, an eighth of those that the origin may still have, but at least
// least. It returns how many, and false if least are not free, or callers of the origin wait in the
// same queue.
func (s *Shares[K]) Try(by Holder[K], most, least int64) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, queue := s.sharer(by.Origin), s.queue(by, least)
	defer s.forget(by.Origin, o)
	if len(o.waiting[queue]) > 0 {
		return 0, false
	}
	return s.grant(o, queue, most, least)
}

// Take is Try that waits until least bytes are free. If ctx ends first, it takes nothing and
// returns ctx's error.
func (s *Shares[K]) Take(ctx context.Context, by Holder[K], most, least int64) (int64, error) {
	s.mu.Lock()
	o, queue := s.sharer(by.Origin), s.queue(by, least)
	if len(o.waiting[queue]) == 0 {
		if n, ok := s.grant(o, queue, most, least); ok {
			s.mu.Unlock()
			return n, nil
		}
	}
	s.turns++
	t := &taker{most: most, least: least, turn: s.turns, ready: make(chan struct{})}
	o.waiting[queue] = append(o.waiting[queue], t)
	s.stats.Waited++
	s.stats.Waiting++
	s.mu.Unlock()
	select {
	case <-t.ready:
		return t.granted, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Canceled++
	select {
	case <-t.ready: // at the same moment
		s.put(by, o, t.granted)
	default:
		i := slices.Index(o.waiting[queue], t)
		o.waiting[queue] = slices.Delete(o.waiting[queue], i, i+1)
		s.stats.Waiting--
	}
	s.forget(by.Origin, o)
	s.admit() // what is behind it may be smaller
	return 0, ctx.Err()
}

// Return returns n bytes of a holder, and admits callers that wait.
func (s *Shares[K]) Return(by Holder[K], n int64) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.sharer(by.Origin)
	s.put(by, o, n)
	s.forget(by.Origin, o)
	s.admit()
}

// Stats returns the counters.
func (s *Shares[K]) Stats() BudgetStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.stats
	x.Size, x.Used = s.size, s.used
	return x
}

// sharer returns the entry of an origin. Caller holds mu, like those of all below.
func (s *Shares[K]) sharer(from K) *sharer {
	o := s.of[from]
	if o == nil {
		o = new(sharer)
		s.of[from] = o
	}
	return o
}

// forget drops the entry of an origin that has and wants nothing.
func (s *Shares[K]) forget(from K, o *sharer) {
	if o.held == 0 && !o.waits() {
		delete(s.of, from)
	}
}

// free returns how many more bytes the callers of an origin's queue may have, below 0 for none.
func (s *Shares[K]) free(o *sharer, queue int) int64 {
	size := s.size
	if queue%kinds == many {
		size -= size / smallPart
	}
	part := (size - s.used + o.held) / 2
	if queue >= kinds {
		part -= part / smallPart
	}
	return part - o.held
}

// grant takes bytes, if the callers of an origin's queue may have them.
func (s *Shares[K]) grant(o *sharer, queue int, most, least int64) (int64, bool) {
	fresh := queue >= kinds
	n := min(max(most, least), max(s.free(o, many+queue/kinds*kinds)/8, least))
	if n > s.free(o, queue) {
		alone := &s.alone[queue%kinds]
		if o.has(fresh) > 0 || fresh && o.held > 0 || alone.of != nil {
			return 0, false
		}
		n, alone.of, alone.new = least, o, fresh
	}
	o.held += n
	if fresh {
		o.fresh += n
	}
	s.used += n
	s.stats.Acquired++
	s.stats.Peak = max(s.stats.Peak, s.used)
	return n, true
}

// put returns bytes.
func (s *Shares[K]) put(by Holder[K], o *sharer, n int64) {
	if has := o.has(by.New); n > has {
		if Invariants {
			panic(fmt.Sprintf("bufpool: %v: %d bytes more returned than taken", by, n-has))
		}
		n = has
	}
	o.held, s.used = o.held-n, s.used-n
	if by.New {
		o.fresh -= n
	}
	for kind := range s.alone {
		if alone := &s.alone[kind]; alone.of == o && o.has(alone.new) == 0 {
			alone.of = nil
		}
	}
}

// admit serves the callers that wait: of each queue, the origin with the least first, then the one
// that has waited the longest. An origin whose next caller must wait for more does not delay the
// others.
func (s *Shares[K]) admit() {
	for queue := range queues {
		for s.admitOne(queue) {
		}
	}
}

// admitOne serves one caller of a queue, and returns false if it can serve none.
func (s *Shares[K]) admitOne(queue int) bool {
	var waiting []*sharer
	for _, o := range s.of {
		if s.stats.Waiting > 0 && len(o.waiting[queue]) > 0 {
			waiting = append(waiting, o)
		}
	}
	slices.SortFunc(waiting, func(a, b *sharer) int {
		return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(a.waiting[queue][0].turn, b.waiting[queue][0].turn))
	})
	for _, o := range waiting {
		t := o.waiting[queue][0]
		if n, ok := s.grant(o, queue, t.most, t.least); ok {
			o.waiting[queue] = o.waiting[queue][1:]
			s.stats.Waiting--
			t.granted = n
			close(t.ready)
			return true
		}
	}
	return false
}
