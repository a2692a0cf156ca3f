package cleaner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Aborted is an aborted transaction: the batches of its producer from First up to the marker at
// Last.
type Aborted struct {
	Producer    int64
	First, Last int64
}

// Outcomes collects the outcomes of transactions. It processes the batches of a log in order, and
// needs memory for each open or aborted transaction. Nil stands for a log without transactions.
type Outcomes struct {
	open    map[int64]int64 // producer → first offset
	aborted []Aborted
}

// Batch processes the next batch. It fails if a control record is invalid.
func (o *Outcomes) Batch(b record.Batch) error {
	id := b.ProducerID()
	switch {
	case b.Control():
		kind, err := b.Marker()
		if err != nil {
			return err
		}
		first, ok := o.open[id]
		if kind == record.Abort && ok {
			o.aborted = append(o.aborted, Aborted{Producer: id, First: first, Last: b.LastOffset()})
		}
		if kind == record.Abort || kind == record.Commit {
			delete(o.open, id)
		}
	case b.Transactional():
		if o.open == nil {
			o.open = map[int64]int64{}
		}
		if _, ok := o.open[id]; !ok {
			o.open[id] = b.BaseOffset()
		}
	}
	return nil
}

// Stable returns the first offset of the open transactions, or end if none is open below it.
func (o *Outcomes) Stable(end int64) int64 {
	if o == nil {
		return end
	}
	for _, first := range o.open {
		end = min(end, first)
	}
	return end
}

// Aborted returns the aborted transactions, sorted by first offset.
func (o *Outcomes) Aborted() []Aborted {
	if o == nil {
		return nil
	}
	list := slices.Clone(o.aborted)
	sorts.Sort(list, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return list
}

// Transactions follows the transactions of a log as its batches are read in order. It reports which
// batches belong to aborted transactions and which markers are no longer needed.
type Transactions struct {
	aborted []Aborted // not begun yet, by first offset
	active  map[int64]Aborted
	seen    map[int64]bool // producers with a batch since their last marker
}

// NewTransactions returns the state at an offset at which no transaction is open.
func NewTransactions(aborted []Aborted) *Transactions {
	return &Transactions{aborted: aborted, active: map[int64]Aborted{}, seen: map[int64]bool{}}
}

// Clone returns an independent copy.
func (t *Transactions) Clone() *Transactions {
	return &Transactions{aborted: t.aborted, active: maps.Clone(t.active), seen: maps.Clone(t.seen)}
}

// Data processes a batch that is not a control batch, and reports whether its transaction was
// aborted.
func (t *Transactions) Data(b record.Batch) (aborted bool) {
	for len(t.aborted) > 0 && t.aborted[0].First <= b.LastOffset() {
		t.active[t.aborted[0].Producer] = t.aborted[0]
		t.aborted = t.aborted[1:]
	}
	if !b.Transactional() {
		return false
	}
	id := b.ProducerID()
	t.seen[id] = true
	a, ok := t.active[id]
	return ok && b.BaseOffset() < a.Last
}

// Marker processes a control batch. It reports whether nothing is left of the transaction that the
// marker ends; then the marker may be removed after its delete horizon. It returns false for a
// control batch that does not end a transaction.
func (t *Transactions) Marker(b record.Batch) (free bool, err error) {
	kind, err := b.Marker()
	if err != nil {
		return false, err
	}
	switch id := b.ProducerID(); kind {
	case record.Abort, record.Commit:
		free = !t.seen[id]
		delete(t.seen, id)
		delete(t.active, id)
	case record.NoControl: // an earlier pass removed its record
		free = true
	}
	return free, nil
}
