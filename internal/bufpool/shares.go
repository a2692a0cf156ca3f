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
// An origin's callers are served first come, first served. If several origins wait, the one that
// has the least is the next.
//
// What Try and Take return must be returned with Return, on every path. A Shares must not be
// copied; its methods are safe for concurrent use, and only Take blocks.
type Shares[K comparable] struct {
	size, small int64

	mu    sync.Mutex
	used  int64
	of    map[K]*sharer  // those that have or want bytes
	alone [kinds]*sharer // has more than its half; nil: none has
	turns uint64
	stats BudgetStats
}

// smallPart is the part of a Shares for callers who need few bytes.
const smallPart = 8

// The kinds of callers: those who need few bytes, and the others.
const (
	few = iota
	many
	kinds
)

// sharer is what one origin has and wants.
type sharer struct {
	held    int64
	waiting [kinds][]*taker
}

func (o *sharer) waits() bool { return len(o.waiting[few])+len(o.waiting[many]) > 0 }

// taker is a caller that waits in Take.
type taker struct {
	most, least int64
	turn        uint64
	granted     int64
	ready       chan struct{}
}

// NewShares returns a budget of size bytes; less than one counts as one. A caller needs few bytes
// if these are at most small.
func NewShares[K comparable](size, small int64) *Shares[K] {
	return &Shares[K]{size: max(size, 1), small: small, of: make(map[K]*sharer)}
}

func (s *Shares[K]) kind(least int64) int {
	if least <= s.small {
		return few
	}
	return many
}

// Try takes up to most bytes for an origin, an eighth of those that it may still have, but at least
// least. It returns how many, and false if least are not free, or callers of the origin wait.
func (s *Shares[K]) Try(from K, most, least int64) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.sharer(from)
	defer s.forget(from, o)
	if len(o.waiting[s.kind(least)]) > 0 {
		return 0, false
	}
	return s.grant(o, most, least)
}

// Take is Try that waits until least bytes are free. If ctx ends first, it takes nothing and
// returns ctx's error.
func (s *Shares[K]) Take(ctx context.Context, from K, most, least int64) (int64, error) {
	s.mu.Lock()
	o, kind := s.sharer(from), s.kind(least)
	if len(o.waiting[kind]) == 0 {
		if n, ok := s.grant(o, most, least); ok {
			s.mu.Unlock()
			return n, nil
		}
	}
	s.turns++
	t := &taker{most: most, least: least, turn: s.turns, ready: make(chan struct{})}
	o.waiting[kind] = append(o.waiting[kind], t)
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
		s.put(from, o, t.granted)
	default:
		i := slices.Index(o.waiting[kind], t)
		o.waiting[kind] = slices.Delete(o.waiting[kind], i, i+1)
		s.stats.Waiting--
	}
	s.forget(from, o)
	s.admit() // what is behind it may be smaller
	return 0, ctx.Err()
}

// Return returns n bytes of an origin, and admits callers that wait.
func (s *Shares[K]) Return(from K, n int64) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.sharer(from)
	s.put(from, o, n)
	s.forget(from, o)
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

// free returns how many more bytes an origin may have, below 0 for none.
func (s *Shares[K]) free(o *sharer, kind int) int64 {
	size := s.size
	if kind == many {
		size -= size / smallPart
	}
	return (size-s.used+o.held)/2 - o.held
}

// grant takes bytes, if an origin may have them.
func (s *Shares[K]) grant(o *sharer, most, least int64) (int64, bool) {
	kind := s.kind(least)
	n := min(max(most, least), max(s.free(o, many)/8, least))
	if n > s.free(o, kind) {
		if o.held > 0 || s.alone[kind] != nil {
			return 0, false
		}
		n, s.alone[kind] = least, o
	}
	o.held += n
	s.used += n
	s.stats.Acquired++
	s.stats.Peak = max(s.stats.Peak, s.used)
	return n, true
}

// put returns bytes.
func (s *Shares[K]) put(from K, o *sharer, n int64) {
	o.held, s.used = o.held-n, s.used-n
	if o.held < 0 {
		if Invariants {
			panic(fmt.Sprintf("bufpool: %v: %d bytes more returned than taken", from, -o.held))
		}
		s.used -= o.held
		o.held = 0
	}
	for kind := range s.alone {
		if o.held == 0 && s.alone[kind] == o {
			s.alone[kind] = nil
		}
	}
}

// admit serves the callers that wait: of each kind, the origin with the least first, then the one
// that has waited the longest. An origin whose next caller must wait for more does not delay the
// others.
func (s *Shares[K]) admit() {
	for kind := range kinds {
		for s.admitOne(kind) {
		}
	}
}

// admitOne serves one caller of a kind, and returns false if it can serve none.
func (s *Shares[K]) admitOne(kind int) bool {
	var waiting []*sharer
	for _, o := range s.of {
		if s.stats.Waiting > 0 && len(o.waiting[kind]) > 0 {
			waiting = append(waiting, o)
		}
	}
	slices.SortFunc(waiting, func(a, b *sharer) int {
		return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(a.waiting[kind][0].turn, b.waiting[kind][0].turn))
	})
	for _, o := range waiting {
		t := o.waiting[kind][0]
		if n, ok := s.grant(o, t.most, t.least); ok {
			o.waiting[kind] = o.waiting[kind][1:]
			s.stats.Waiting--
			t.granted = n
			close(t.ready)
			return true
		}
	}
	return false
}
