package group

import (
	"container/list"
	"time"

	"github.com/chronik-io/chronik/internal/storage/producers"
)

// transactions are the transactional producers of a shard. The log checks no producers in batches
// of a coordinator, so the shard judges them before it applies anything: a log that refused a batch
// would cost the whole shard a reload.
//
// The producers are replicated state, except for their times. As in a log, a producer is forgotten
// after Config.ProducerExpiry without a batch, or when there are too many, but never while its
// transaction is open.
type transactions struct {
	ids    map[int64]*producer
	byUse  list.List // of *producer, the least recently used one first
	open   int       // open transactions
	writes uint64    // counts applied offsets; it orders them
	// markers counts applied markers. forgot is its value when a producer was last forgotten.
	markers, forgot uint64
	life            *life
}

// producer is a producer with its pending offsets.
type producer struct {
	producers.Fence
	id      int64
	ended   uint64 // its last marker, as a value of transactions.markers; 0: none
	seen    int64  // ms since 1970, of the latest batch, or of the load
	pending []pendingKey
	use     *list.Element
}

// pendingKey is where a producer has a pending offset, or had one that is deleted.
type pendingKey struct {
	group, topic string
	partition    int32
}

// life is the identity of a machine.
type life struct{ _ byte } // not empty: two must have two addresses

func newTransactions() transactions {
	return transactions{ids: map[int64]*producer{}, life: new(life)}
}

// Guard is a moment in the life of a shard. A permit that was asked for with it begins a
// transaction only if the shard has had no marker of the producer since.
type Guard struct {
	life    *life
	markers uint64
}

func (t *transactions) guard() Guard { return Guard{t.life, t.markers} }

// holds reports whether no marker of a producer was applied since the guard was made. For an
// unknown producer, none of any forgotten producer.
func (t *transactions) holds(id int64, g Guard) bool {
	last := t.forgot
	if p := t.ids[id]; p != nil {
		last = p.ended
	}
	return g.life == t.life && last <= g.markers
}

// fence returns the known state of a producer.
func (t *transactions) fence(id int64) producers.Fence {
	if p := t.ids[id]; p != nil {
		return p.Fence
	}
	return producers.NoFence()
}

// use returns a producer, a new one if it is unknown, as the most recently used one.
func (t *transactions) use(id, now int64) *producer {
	p := t.ids[id]
	if p == nil {
		t.retire(producers.DefaultLimit-1, func(*producer) bool { return true })
		p = &producer{Fence: producers.NoFence(), id: id}
		p.use = t.byUse.PushBack(p)
		t.ids[id] = p
	} else {
		t.byUse.MoveToBack(p.use)
	}
	p.seen = now
	return p
}

// begin notes a transactional batch.
func (t *transactions) begin(id int64, epoch int16, now int64) *producer {
	p := t.use(id, now)
	if !p.Open {
		t.open++
	}
	p.Fence = p.Begin(epoch)
	return p
}

// end notes a marker. The caller handles the producer's places.
func (t *transactions) end(m producers.Marker, now int64) *producer {
	p := t.use(m.Producer, now)
	if p.Open {
		t.open--
	}
	t.markers++
	p.ended = t.markers
	p.Fence = p.End(m)
	return p
}

// retire forgets the least recently used producers while there are more than limit, up to the first
// one that old rejects. Open transactions stay, as the most recently used ones.
func (t *transactions) retire(limit int, old func(*producer) bool) {
	for n := t.byUse.Len(); n > 0 && len(t.ids) > limit; n-- {
		p := t.byUse.Front().Value.(*producer)
		switch {
		case !old(p):
			return
		case p.Open:
			t.byUse.MoveToBack(p.use)
		default:
			t.forget(p)
		}
	}
}

func (t *transactions) forget(p *producer) {
	t.byUse.Remove(p.use)
	delete(t.ids, p.id)
	t.forgot = t.markers
}

// loaded starts the time of all producers: a load does not know when they were active.
func (t *transactions) loaded(now time.Time) {
	for _, p := range t.ids {
		p.seen = now.UnixMilli()
	}
}

// expireProducers forgets the producers that were idle for Config.ProducerExpiry.
func (s *Shard) expireProducers() {
	t, limit := &s.transactions, s.nowMillis()-s.cfg.ProducerExpiry.Milliseconds()
	if s.cfg.Broken.Has(ForgetTransaction) {
		for _, p := range t.ids {
			if p.seen < limit {
				t.forget(p)
			}
		}
		return
	}
	t.retire(0, func(p *producer) bool { return p.seen < limit })
}
