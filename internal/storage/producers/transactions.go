package producers

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// A transaction of a producer begins in a log with its first transactional batch and ends with a
// marker, a control batch. Readers of committed records stop at the first offset of the oldest
// transaction that is open, or whose marker is not committed (the last stable offset).
//
// A log may end earlier again, and a checkpoint stores the state at the recovery point, where a
// transaction may be open that has ended since. So State can return to what it was: it keeps one
// change for each beginning and end beyond the offset of MarkDurable, and for each producer with
// changes below that the transaction at the offset of MarkSynced.

// transaction is the state of the transactions of a producer at some offset.
type transaction struct {
	first  int64 // first offset of the open transaction; -1: none is open
	since  int64 // wall clock, ms, when the open transaction began, see Producer.Since; 0: none is open
	marker int64 // offset of the last marker; -1: none is known
	// coordinator is the largest epoch of the coordinators that sent its markers, -1: none is
	// known.
	coordinator int32
	// epoch is that of the last marker, or of the batch that began the transaction if that is
	// newer; -1: none. It fences older batches even if no batch of it is remembered.
	epoch int16
	kind  record.ControlType // of the last marker; NoControl: none, or a compaction emptied it
}

var noTransaction = transaction{first: -1, marker: -1, coordinator: -1, epoch: -1, kind: record.NoControl}

// transactional is the part of a producer that only producers with transactions have.
type transactional struct {
	now    transaction // at the end of the log
	span   *span       // of the open transaction; nil: none
	synced transaction // at the offset of MarkSynced; valid if unsynced
	// unsynced: the transaction at the offset of MarkDurable is another one than at that of
	// MarkSynced.
	unsynced bool
	// pins counts what needs the producer: its open transaction, its spans, changes and synced. It
	// is not forgotten meanwhile.
	pins int
}

// now returns the transactions of a producer at the end of the log.
func (p *producer) now() transaction {
	if p.txn == nil {
		return noTransaction
	}
	return p.txn.now
}

func (p *producer) pin(n int) { p.txn.pins += n }

// span is a transaction that is open, or whose marker is not known to be committed.
type span struct {
	p           *producer
	first, last int64 // last: the offset of the marker, -1 while it is open
	since       int64 // wall clock, ms, when it began; see Producer.Since
	in          [2]links
}

type links struct {
	older, newer *span
	listed       bool
}

// The lists of spans: all of them, and those that are open.
const (
	anySpan = iota
	openSpan
)

// spans is a list of spans in the order of their first offsets.
type spans struct{ oldest, newest *span }

// link adds a span to list i. Transactions begin in the order of offsets, so its place is at the
// end, except after a marker was undone.
func (s *State) link(i int, x *span) {
	l, at := &s.spans[i], &x.in[i]
	after := l.newest
	for after != nil && after.first > x.first {
		after = after.in[i].older
	}
	at.older, at.listed = after, true
	if after != nil {
		at.newer, after.in[i].newer = after.in[i].newer, x
	} else {
		at.newer, l.oldest = l.oldest, x
	}
	if at.newer != nil {
		at.newer.in[i].older = x
	} else {
		l.newest = x
	}
}

func (s *State) unlink(i int, x *span) {
	l, at := &s.spans[i], &x.in[i]
	if at.older != nil {
		at.older.in[i].newer = at.newer
	} else {
		l.oldest = at.newer
	}
	if at.newer != nil {
		at.newer.in[i].older = at.older
	} else {
		l.newest = at.older
	}
	*at = links{}
}

// change is the beginning or the end of a transaction, with the state before it.
type change struct {
	p      *producer
	at     int64 // offset of the last record of the batch
	before transaction
	span   *span // that the change began or ended; nil: a marker without a transaction
}

// begin records a transactional batch that came at a time, ms of the wall clock.
func (s *State) begin(p *producer, b record.Batch, came int64) {
	was := p.now()
	if was.first >= 0 && was.epoch >= b.ProducerEpoch() {
		return
	}
	next := was
	next.epoch = max(next.epoch, b.ProducerEpoch())
	if was.first >= 0 { // only a log without its marker has such a batch
		s.change(p, b.LastOffset(), next, nil)
		return
	}
	next.first, next.since = b.BaseOffset(), came
	delete(s.guards, p.id)
	x := &span{p: p, first: next.first, last: -1, since: came}
	s.change(p, b.LastOffset(), next, x)
	s.open(x)
}

// open makes a span the open one of its producer.
func (s *State) open(x *span) {
	if !x.in[anySpan].listed {
		s.link(anySpan, x)
		x.p.pin(1)
	}
	s.link(openSpan, x)
	x.p.txn.span = x
	s.opened++
}

// shut removes a span from the open ones.
func (s *State) shut(x *span) {
	s.unlink(openSpan, x)
	x.p.txn.span = nil
	s.opened--
}

// drop removes a span that ended, or did not begin.
func (s *State) drop(x *span) {
	s.unlink(anySpan, x)
	x.p.pin(-1)
}

// end records a marker. One without its record, which a compaction removed, ends the transaction
// too: that happens only when no record of the transaction is left.
func (s *State) end(b record.Batch, now time.Time) {
	kind, coordinator, err := b.EndTxn()
	if err != nil || kind != record.Abort && kind != record.Commit && b.Records() > 0 {
		return
	}
	p := s.active(b.ProducerID(), now)
	was := p.now()
	x := p.span()
	s.change(p, b.LastOffset(), transaction{first: -1, marker: b.LastOffset(), coordinator: max(was.coordinator, coordinator),
		epoch: max(p.epoch(), b.ProducerEpoch()), kind: kind}, x)
	delete(s.guards, p.id)
	if x == nil {
		return
	}
	x.last = b.LastOffset()
	s.shut(x)
	s.decided = append(s.decided, x)
	if kind != record.Abort {
		return
	}
	e := txnindex.Entry{Producer: p.id, First: x.first, Last: x.last, Stable: x.last + 1}
	if open := s.spans[openSpan].oldest; open != nil {
		e.Stable = open.first
	}
	s.aborted = append(s.aborted, e)
}

// Aborted returns the aborted transactions whose markers are in [from, end), in the order of the
// markers. from must not be below the offset of MarkSynced, or that at which the state began. The
// result must not be changed, and is valid until the next Cut.
func (s *State) Aborted(from, end int64) []txnindex.Entry {
	i := sort.Search(len(s.aborted), func(i int) bool { return s.aborted[i].Last >= from })
	n := sort.Search(len(s.aborted), func(i int) bool { return s.aborted[i].Last >= end })
	return s.aborted[min(i, n):n:n]
}

// LastAborted returns the offset of the last marker that Aborted may return, -1 if there is none.
func (s *State) LastAborted() int64 {
	if n := len(s.aborted); n > 0 {
		return s.aborted[n-1].Last
	}
	return -1
}

// dropAborted forgets the aborted transactions whose markers are below an offset.
func (s *State) dropAborted(end int64) {
	n := sort.Search(len(s.aborted), func(i int) bool { return s.aborted[i].Last >= end })
	if s.aborted = s.aborted[n:]; n > 0 {
		s.aborted = slices.Clone(s.aborted) // readers may hold the array, and nothing else needs it
	}
}

func (p *producer) span() *span {
	if p.txn == nil {
		return nil
	}
	return p.txn.span
}

// adopt gives a producer the state of its transactions from elsewhere. What it knows itself is
// newer.
func (s *State) adopt(p *producer, t transaction) {
	if p.txn != nil {
		p.txn.now.coordinator = max(p.txn.now.coordinator, t.coordinator)
		p.txn.now.epoch = max(p.txn.now.epoch, t.epoch)
		return
	}
	p.txn = &transactional{now: t}
	if t.first >= 0 {
		s.open(&span{p: p, first: t.first, last: -1, since: t.since})
	}
}

// change gives a producer its next transaction.
func (s *State) change(p *producer, at int64, next transaction, x *span) {
	if p.txn == nil {
		p.txn = &transactional{now: noTransaction}
	}
	if s.tracksDurable {
		s.changes = append(s.changes, change{p: p, at: at, before: p.txn.now, span: x})
		p.pin(1)
	}
	p.txn.now = next
}

// undo returns to the transactions at an offset that is not below that of MarkDurable.
func (s *State) undo(end int64) {
	n := sort.Search(len(s.aborted), func(i int) bool { return s.aborted[i].Last >= end })
	s.aborted = s.aborted[:n:n]
	for n := len(s.changes); n > 0 && s.changes[n-1].at >= end; n-- {
		c := &s.changes[n-1]
		p, ended := c.p, c.before.first >= 0
		p.txn.now = c.before
		p.pin(-1)
		switch x := c.span; {
		case x != nil && ended:
			if k := len(s.decided); k > 0 && s.decided[k-1] == x { // otherwise Advance took it for committed
				s.decided = s.decided[:k-1]
			}
			x.last = -1
			s.open(x)
		case x != nil:
			s.shut(x)
			s.drop(x)
		}
		*c = change{}
		s.changes = s.changes[:n-1]
	}
}

// makePermanent makes the changes below an offset permanent. The state at the offset of MarkSynced
// stays known.
func (s *State) makePermanent(end int64) {
	n := 0
	for n < len(s.changes) && s.changes[n].at < end {
		c := &s.changes[n]
		n++
		t := c.p.txn
		if t.unsynced {
			t.pins--
			continue
		}
		t.unsynced, t.synced = true, c.before // its pin is now that of synced
		s.unsynced = append(s.unsynced, c.p)
	}
	clear(s.changes[:n])
	if s.changes = s.changes[n:]; len(s.changes) == 0 {
		s.changes = nil
	}
}

// MarkSynced records that the recovery point is at the offset of MarkDurable: the state is never
// asked for below it again.
func (s *State) MarkSynced() {
	for _, p := range s.unsynced {
		p.txn.unsynced, p.txn.synced = false, transaction{}
		p.pin(-1)
	}
	s.unsynced = nil
	s.dropAborted(s.durableEnd)
}

// transactions returns the transactions at an offset of the producers for which they differ from
// those at the end of the log.
func (s *State) transactions(end int64) map[*producer]transaction {
	if len(s.changes) == 0 && len(s.unsynced) == 0 {
		return nil
	}
	at := map[*producer]transaction{}
	for i := len(s.changes) - 1; i >= 0 && s.changes[i].at >= end; i-- {
		at[s.changes[i].p] = s.changes[i].before
	}
	if end < s.durableEnd {
		for _, p := range s.unsynced {
			at[p] = p.txn.synced
		}
	}
	return at
}

// Advance records the high watermark: markers below it are committed.
func (s *State) Advance(high int64) {
	n := 0
	for n < len(s.decided) && s.decided[n].last < high {
		s.drop(s.decided[n])
		s.decided[n] = nil
		n++
	}
	if s.decided = s.decided[n:]; len(s.decided) == 0 {
		s.decided = nil
	}
}

// Open returns the number of open transactions.
func (s *State) Open() int { return s.opened }

// Oldest is the transaction that determines FirstUnstable.
type Oldest struct {
	Producer Producer
	Since    int64 // when it began; see Producer.Since
	Open     bool  // it has no marker
}

// Oldest returns the transaction that determines FirstUnstable, false if there is none.
func (s *State) Oldest() (Oldest, bool) {
	x := s.spans[anySpan].oldest
	if x == nil {
		return Oldest{}, false
	}
	return Oldest{x.p.describe(), x.since, x.last < 0}, true
}

// OpenTransactions returns the producers with an open transaction, in the order of first offsets.
func (s *State) OpenTransactions() []Producer {
	if s.opened == 0 {
		return nil
	}
	list := make([]Producer, 0, s.opened)
	for x := s.spans[openSpan].oldest; x != nil; x = x.in[openSpan].newer {
		list = append(list, x.p.describe())
	}
	return list
}

// FirstUnstable returns the first offset of the oldest transaction that is open, or whose marker is
// not below the high watermark of the last Advance; MaxInt64 if there is none.
func (s *State) FirstUnstable() int64 {
	if x := s.spans[anySpan].oldest; x != nil {
		return x.first
	}
	return math.MaxInt64
}

// NextDecided returns the offset of the first marker that the next Advance may find committed;
// MaxInt64 if there is none.
func (s *State) NextDecided() int64 {
	if len(s.decided) > 0 {
		return s.decided[0].last
	}
	return math.MaxInt64
}

// Transactional reports whether the log has had transactions that the state knows of.
func (s *State) Transactional() bool {
	for _, p := range s.ids {
		if p.txn != nil {
			return true
		}
	}
	return false
}

// Guard permits the batches that wait for it to begin a transaction of a producer. It is destroyed
// when one begins, by a marker, and by DropGuards: then what the coordinator said before may no
// longer be true.
type Guard struct{ _ byte } // not empty: two guards must have two addresses

// Guard returns the guard of a producer id, a new one if there is none.
func (s *State) Guard(id int64) *Guard {
	g := s.guards[id]
	if g == nil {
		if g = new(Guard); s.guards == nil {
			s.guards = map[int64]*Guard{}
		}
		s.guards[id] = g
	}
	return g
}

// Unguard destroys a guard that no batch waits for any longer.
func (s *State) Unguard(id int64, g *Guard) {
	if s.guards[id] == g {
		delete(s.guards, id)
	}
}

// DropGuards destroys all guards.
func (s *State) DropGuards() { s.guards = nil }

// Producer describes a producer to coordinators and tools.
type Producer struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1: no batch of the epoch is remembered
	Last             int64 // last offset of its latest batch of the epoch; -1: none is remembered
	Seen             int64 // wall clock, ms, of its latest batch or marker
	CoordinatorEpoch int32 // of the coordinator of its last marker; -1: none
	First            int64 // first offset of its open transaction; -1: none is open
	// Since is when the open transaction began, ms of the wall clock: when its first batch arrived.
	// If that was not long before an unclean stop, it is the batch's timestamp. 0: none is open.
	Since int64
}

// Producer returns the known state of a producer id; false if nothing is.
func (s *State) Producer(id int64) (Producer, bool) {
	p := s.ids[id]
	if p == nil {
		return Producer{}, false
	}
	return p.describe(), true
}

// Producers returns all producers, the least recently active one first.
func (s *State) Producers() []Producer {
	list := make([]Producer, 0, len(s.ids))
	for p := s.oldest; p != nil; p = p.newer {
		list = append(list, p.describe())
	}
	return list
}

func (p *producer) describe() Producer {
	t, last, offset := p.now(), int32(-1), int64(-1)
	if m := p.last(); m != nil && m.epoch >= t.epoch {
		last, offset = m.lastSeq, m.lastOffset
	}
	return Producer{ID: p.id, Epoch: p.epoch(), LastSequence: last, Last: offset, Seen: p.seen, CoordinatorEpoch: t.coordinator,
		First: t.first, Since: t.since}
}
