// Package producers is what a log knows of its producers: the last five batches of every producer
// id, with which a retry is recognized (KIP-98, KIP-360), and its transactions.
//
// State is a value without locks, clocks or files. The log that owns it guards it, stores it in the
// directory's checkpoint and rebuilds it from batches. Check and CheckMarker decide whether a batch
// may be appended, and change nothing. Add records a batch; it is called for every batch that
// enters the log, also during replay.
package producers

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// Window is how many batches of a producer are remembered. An idempotent producer has at most that
// many in flight.
const Window = 5

// batch describes a remembered batch.
type batch struct {
	firstSeq, lastSeq int32
	lastOffset        int64
	timestamp         int64 // max timestamp
	delta             int32 // lastOffset - first offset
	epoch             int16
}

// producer is the state of one producer id.
type producer struct {
	id           int64
	seen         int64   // wall clock, ms, of the latest batch
	batches      []batch // oldest first; empty only if txn is set
	txn          *transactional
	older, newer *producer
}

// last returns the last batch, nil if none is remembered.
func (p *producer) last() *batch {
	if len(p.batches) == 0 {
		return nil
	}
	return &p.batches[len(p.batches)-1]
}

// epoch returns the producer's latest epoch.
func (p *producer) epoch() int16 {
	epoch := p.now().epoch
	if m := p.last(); m != nil {
		epoch = max(epoch, m.epoch)
	}
	return epoch
}

// below returns the number of batches below an offset.
func (p *producer) below(end int64) int {
	n := len(p.batches)
	for n > 0 && p.batches[n-1].lastOffset >= end {
		n--
	}
	return n
}

// window returns the batches that Check compares with if the log ended after the first n: those of
// the latest epoch among them, at most Window.
func (p *producer) window(n int) []batch {
	from := n
	for from > max(n-Window, 0) && p.batches[from-1].epoch == p.batches[n-1].epoch {
		from--
	}
	return p.batches[from:n]
}

// State is the idempotence state of one log.
//
// It is also valid for an earlier end of the log. Cut may remove the batches from the offset of
// MarkDurable on, so State keeps the batches that they pushed out of the window until they are
// durable. The batches that are not in segments yet bound the memory for that.
type State struct {
	ids            map[int64]*producer
	oldest, newest *producer // by the time of the latest Add
	// Expiry is how long a producer is remembered after its latest batch
	// (producer.id.expiration.ms). 0: DefaultExpiry.
	Expiry time.Duration
	// Limit is how many producers are remembered; 0: DefaultLimit. The least recently active
	// producer is forgotten first, and its next batch is accepted like that of an unknown producer.
	// Producers with batches that are not durable are remembered beyond Limit, up to twice as many,
	// because such a batch may be in flight and be sent again.
	Limit int
	// Everywhere is the number of open transactions in all logs of the broker; nil: not counted.
	// The owner of the logs keeps it. At MaxOpenEverywhere no transaction begins.
	Everywhere *atomic.Int64

	durableEnd    int64
	tracksDurable bool // otherwise every batch counts as durable when it is added

	spans    [2]spans
	decided  []*span // transactions that ended, in the order of their markers, until Advance
	opened   int     // open transactions
	changes  []change
	unsynced []*producer
	aborted  []txnindex.Entry // of the markers since the offset of MarkSynced
	guards   map[int64]*Guard
}

// DefaultExpiry is Kafka's producer.id.expiration.ms.
const DefaultExpiry = 24 * time.Hour

// DefaultLimit bounds the producers of one log. A producer that wrote a single batch takes about
// 120 bytes of memory and 47 bytes in a checkpoint; one that wrote many takes about 350 and 159.
const DefaultLimit = 100_000

// Len returns the number of remembered producers.
func (s *State) Len() int { return len(s.ids) }

// Knows reports whether a batch or marker below an offset is remembered.
func (s *State) Knows(end int64) bool {
	for _, p := range s.ids {
		if p.txn != nil || p.batches[0].lastOffset < end {
			return true
		}
	}
	return false
}

// Add records a batch that has its offsets in the log. now is the time at which its producer was
// active.
func (s *State) Add(b record.Batch, now time.Time) { s.add(b, now, now) }

// Replay is Add for a batch that came at an unknown time before now. Its producer counts as active
// now: a timestamp is the client's, and an old one must not end the recognition of its retries. A
// transaction that the batch begins is as old as its timestamp says.
func (s *State) Replay(b record.Batch, now time.Time) { s.add(b, now, Came(b, now)) }

// Came returns when a batch came that was read from a disk: its timestamp. It returns now for
// batches without a timestamp and for those from the future.
func Came(b record.Batch, now time.Time) time.Time {
	if ts := b.MaxTimestamp(); ts >= 0 && ts < now.UnixMilli() {
		return time.UnixMilli(ts)
	}
	return now
}

func (s *State) add(b record.Batch, now, came time.Time) {
	id := b.ProducerID()
	switch {
	case id < 0:
		return
	case b.Control():
		s.end(b, now)
		return
	case b.BaseSequence() < 0 && !b.Transactional():
		return // no producer sends that, but a damaged leader or log may have it: nothing is to be remembered
	}
	p := s.active(id, now)
	if b.BaseSequence() >= 0 {
		room := Window
		if !s.tracksDurable {
			room-- // the new batch counts as durable at once
		}
		s.trim(p, room)
		p.batches = append(p.batches, batch{
			b.BaseSequence(), b.LastSequence(), b.LastOffset(), b.MaxTimestamp(), b.LastOffsetDelta(), b.ProducerEpoch(),
		})
	}
	if b.Transactional() {
		s.begin(p, b, came.UnixMilli())
	}
}

// active returns the producer with an id, a new one if it is unknown, as the most recently active
// one.
func (s *State) active(id int64, now time.Time) *producer {
	p := s.ids[id]
	if p == nil {
		s.makeRoom(now.UnixMilli())
		p = &producer{id: id}
	} else {
		s.unlist(p)
	}
	p.seen = now.UnixMilli()
	s.list(p)
	return p
}

// trim removes durable batches outside the window, so that at most room of the durable ones stay.
func (s *State) trim(p *producer, room int) {
	n := s.durableBatches(p)
	if n == 0 {
		return
	}
	if gone := n - min(len(p.window(n)), room); gone > 0 {
		p.batches = slices.Delete(p.batches, 0, gone)
	}
	if cap(p.batches) > 4*Window && len(p.batches) <= Window { // after a burst
		p.batches = slices.Clone(p.batches)
	}
}

// durableBatches returns the number of a producer's durable batches.
func (s *State) durableBatches(p *producer) int {
	if !s.tracksDurable {
		return len(p.batches)
	}
	return p.below(s.durableEnd)
}

// MarkDurable records that the batches below end are in segments and will not be cut.
func (s *State) MarkDurable(end int64) {
	s.durableEnd, s.tracksDurable = max(s.durableEnd, end), true
	s.makePermanent(end)
	s.shrink(s.limit())
}

// Cut removes the batches and markers at or beyond end, which is not below the offset of
// MarkDurable, and destroys all guards. Those must not keep a producer of which nothing is left.
func (s *State) Cut(end int64) {
	s.DropGuards()
	s.undo(end)
	for _, p := range s.ids {
		if p.batches = p.batches[:p.below(end)]; len(p.batches) == 0 && p.now() == noTransaction && !s.held(p) {
			s.forget(p)
		}
	}
}

// list makes p the most recently active producer.
func (s *State) list(p *producer) {
	if s.ids == nil {
		s.ids = map[int64]*producer{}
	}
	s.ids[p.id] = p
	p.older, p.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = p
	} else {
		s.oldest = p
	}
	s.newest = p
}

// unlist removes p from the list.
func (s *State) unlist(p *producer) {
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		s.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		s.newest = p.older
	}
}

func (s *State) forget(p *producer) {
	s.unlist(p)
	delete(s.ids, p.id)
}

// held reports whether a producer must not be forgotten: it has an open transaction or one that has
// just ended, or a batch waits for its guard.
func (s *State) held(p *producer) bool {
	return p.txn != nil && p.txn.pins > 0 || s.guards[p.id] != nil
}

// retire forgets the least recently active producer. If that is held, it becomes the most recently
// active one, so that the next ones can go.
func (s *State) retire() {
	p := s.oldest
	if s.held(p) {
		s.unlist(p)
		s.list(p)
		return
	}
	s.forget(p)
}

// makeRoom forgets producers that were idle for Expiry, and the least recently active ones if the
// limit is reached. It is called only for a new producer, the only time that the state grows.
func (s *State) makeRoom(now int64) {
	for n := len(s.ids); n > 0 && s.expired(s.oldest, now); n-- {
		s.retire()
	}
	s.shrink(s.limit() - 1)
	for n := len(s.ids); n > 0 && len(s.ids) >= 2*s.limit(); n-- {
		s.retire()
	}
}

// shrink forgets the least recently active producers while there are more than limit. It stops at
// the first with a batch that is not durable, since more recent producers also have such batches.
func (s *State) shrink(limit int) {
	for n := len(s.ids); n > 0 && len(s.ids) > limit && s.durableBatches(s.oldest) == len(s.oldest.batches); n-- {
		s.retire()
	}
}

func (s *State) expired(p *producer, now int64) bool {
	return now-p.seen > cmp.Or(s.Expiry, DefaultExpiry).Milliseconds()
}

func (s *State) limit() int { return cmp.Or(s.Limit, DefaultLimit) }

// Expire forgets every producer that was idle for Expiry. It checks all of them, for a rebuilt
// state: the timestamps of batches need not increase along a log.
func (s *State) Expire(now time.Time) {
	for _, p := range s.ids {
		if s.expired(p, now.UnixMilli()) && !s.held(p) {
			s.forget(p)
		}
	}
}

// Complete adds information from the state of the whole log to a state that was rebuilt from the
// batches below end: the times of activity, and the producers whose batches and markers are no
// longer in the log.
func (s *State) Complete(whole *State, end int64) {
	for q := whole.oldest; q != nil; q = q.newer {
		p := s.ids[q.id]
		if p != nil {
			s.unlist(p)
			p.seen = max(p.seen, q.seen)
		} else {
			p = &producer{id: q.id, seen: q.seen, batches: slices.Clone(q.window(q.below(end)))}
		}
		// What q knows was known at end if nothing has changed since.
		if t := q.now(); q.txn != nil && t.first < end && t.marker < end {
			s.adopt(p, t)
		}
		if len(p.batches) == 0 && p.txn == nil {
			continue
		}
		s.list(p) // in the order of the whole log
	}
	s.shrink(s.limit())
}

// Below returns what is known of the producers below an offset, for a log that begins there and
// gets batches from there on, perhaps not all that s has: those that are not committed may be lost.
// Bounds are those of s. What is below must be committed.
//
// The epoch of a coordinator fences older ones there, too, and so does that of a batch: they are in
// use, also if the marker or the batch above is lost. That of a marker above fences nothing: the
// marker may come again, and must be above the epoch of its transaction. If only batches above are
// remembered, the producer has no older one in flight, and the first of these is the next that it
// may send again.
func (s *State) Below(end int64) *State {
	x := &State{Expiry: s.Expiry, Limit: s.Limit}
	for q := s.oldest; q != nil; q = q.newer {
		n := q.below(end)
		p := &producer{id: q.id, seen: q.seen, batches: slices.Clone(q.window(n))}
		if q.txn != nil {
			if n == 0 && len(q.batches) > 0 && q.batches[0].firstSeq > 0 { // a producer without batches must begin with 0
				m := &q.batches[0]
				p.batches = []batch{{firstSeq: -1, lastSeq: m.firstSeq - 1, lastOffset: end - 1, timestamp: m.timestamp, epoch: m.epoch}}
			}
			t := q.now()
			if t.first >= end {
				t.first, t.since = -1, 0
			}
			if t.marker >= end {
				t.marker, t.kind, t.epoch = -1, record.NoControl, -1
			}
			if t != noTransaction {
				x.adopt(p, t)
			}
		}
		if len(p.batches) > 0 || p.txn != nil {
			x.list(p)
		}
	}
	return x
}

// Last is where the last durable batch and the last durable marker of a producer are; -1: there is
// none. Together they are all that must be known of it.
type Last struct{ Batch, Marker int64 }

// LastOffsets returns the last durable offsets of each producer.
func (s *State) LastOffsets() map[int64]Last {
	m := make(map[int64]Last, len(s.ids))
	for id, p := range s.ids {
		last := Last{-1, -1}
		if n := s.durableBatches(p); n > 0 {
			last.Batch = p.batches[n-1].lastOffset
		}
		if t := p.now(); !s.tracksDurable || t.marker < s.durableEnd {
			last.Marker = t.marker
		}
		if last != (Last{-1, -1}) {
			m[id] = last
		}
	}
	return m
}
