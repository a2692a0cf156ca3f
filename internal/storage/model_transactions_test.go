package storage

import (
	"math"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// The logs of the model that are not compacted have transactions. What a log knows of them must be
// what the model's batches say, at all times and after every start.

// Transactional producers of the model: their ids are above all others.
const (
	txnProducer  = 1_000_000
	txnProducers = 4
)

// transact appends some batches of transactions and markers. Producers and coordinators do what the
// log expects; refusals have tests of their own.
func (w *world) transact(m *mlog) {
	for range 1 + w.rng.IntN(4) {
		id := txnProducer + int64(w.rng.IntN(txnProducers))
		p, known := m.l.Producer(id)
		if !known {
			p = producers.Producer{LastSequence: -1, CoordinatorEpoch: -1, First: -1}
		}
		if w.rng.IntN(2) == 0 {
			kind := record.ControlType(w.rng.IntN(2))
			b := record.EndTxnMarker(id, p.Epoch+int16(w.rng.IntN(2)), kind, max(p.CoordinatorEpoch, int32(w.rng.IntN(3))), w.modelTime())
			w.sendAppend(m, &Append{Kind: Marker, Batches: b})
			continue
		}
		o := record.BatchOptions{Producer: &record.Producer{ID: id, Epoch: p.Epoch, Sequence: p.LastSequence + 1}, Transactional: true}
		if w.rng.IntN(5) == 0 {
			o.Producer.Sequence = -1 // as the offsets of a group
		}
		b := record.NewBuilder(o)
		w.counter++
		b.Append(w.modelTime(), w.modelKey(), make([]byte, w.rng.IntN(900)), nil)
		data, err := b.Build()
		if err != nil {
			failf("build: %v", err)
		}
		w.sendAppend(m, &Append{Batches: data, Permit: producers.Permit{Guard: m.l.Guard(id), CoordinatorEpoch: math.MaxInt32}})
	}
	w.say("transactions in %s, %s", m.topic, w.describe(m))
}

// allStable reports whether no transaction of a log is open.
func (w *world) allStable(m *mlog) bool { return m.l.FirstUnstable(math.MaxInt64) == math.MaxInt64 }

// sameTransactions compares what a log knows of its transactions with its batches. Nothing may be
// in flight.
func (w *world) sameTransactions(m *mlog) {
	if w.disk.Crashed() {
		return
	}
	if err := readsCommitted(m.l, m.l.logStart.Load() == 0); err != nil && !w.disk.Crashed() {
		failf("%s: %v", m.topic, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[int64]producers.Producer{}
	unstable := int64(math.MaxInt64)
	for _, x := range m.cur.bs {
		b := record.Batch(x.data)
		if !b.Transactional() {
			continue
		}
		id := b.ProducerID()
		p, known := want[id]
		if !known {
			p = producers.Producer{ID: id, CoordinatorEpoch: -1, First: -1}
		}
		p.Epoch = max(p.Epoch, b.ProducerEpoch())
		if _, coordinator, err := b.EndTxn(); err != nil {
			failf("the marker at %d: %v", x.base, err)
		} else if b.Control() {
			p.First, p.CoordinatorEpoch = -1, max(p.CoordinatorEpoch, coordinator)
		} else if p.First < 0 {
			p.First = x.base
		}
		want[id] = p
	}
	for id := range int64(txnProducers) {
		id += txnProducer
		p, known := want[id]
		got, has := m.l.Producer(id)
		got.Seen, got.Since, got.LastSequence, got.Last = 0, 0, 0, 0
		if has != known || got != p {
			failf("%s: producer %d is known as %+v (%v), its batches say %+v (%v)", m.topic, id, got, has, p, known)
		}
		if known && p.First >= 0 {
			unstable = min(unstable, p.First)
		}
	}
	if got := m.l.FirstUnstable(math.MaxInt64); got != unstable {
		failf("%s: the first unstable offset is %d, its batches say %d", m.topic, got, unstable)
	}
}
