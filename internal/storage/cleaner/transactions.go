package cleaner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/record"
)

// Aborted is a transaction that was taken back: the batches of its producer from
// First on, up to the marker at Last.
type Aborted struct {
	Producer    int64
	First, Last int64
}

// Outcomes finds out how transactions ended. It is given the batches of a log in
// their order, and needs memory for each transaction that is open or was aborted.
type Outcomes struct {
	open    map[int64]int64 // producer → first offset
	aborted []Aborted
}

// Batch takes the next batch. The error says that a control record makes no sense.
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

// Stable returns the first offset of a transaction whose end was not seen; end if
// there is none.
func (o *Outcomes) Stable(end int64) int64 {
	for _, first := range o.open {
		end = min(end, first)
	}
	return end
}

// Aborted returns the transactions that were taken back, by their first offset.
func (o *Outcomes) Aborted() []Aborted {
	list := slices.Clone(o.aborted)
	slices.SortFunc(list, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return list
}

// Transactions follows the transactions of a log while its batches are read in
// their order: which of them count, and which markers are not needed any more.
type Transactions struct {
	aborted []Aborted // that begin later; by their first offset
	back    map[int64]Aborted
	seen    map[int64]bool // producers with a batch since their last marker
}

// NewTransactions begins at the start of a log, or after the end of every
// transaction before.
func NewTransactions(aborted []Aborted) *Transactions {
	return &Transactions{aborted: aborted, back: map[int64]Aborted{}, seen: map[int64]bool{}}
}

// Clone returns what goes on from here by itself.
func (t *Transactions) Clone() *Transactions {
	return &Transactions{aborted: t.aborted, back: maps.Clone(t.back), seen: maps.Clone(t.seen)}
}

// Data takes a batch that is no control batch, and reports whether its transaction
// was aborted, so that none of its records counts.
func (t *Transactions) Data(b record.Batch) (aborted bool) {
	for len(t.aborted) > 0 && t.aborted[0].First <= b.LastOffset() {
		t.back[t.aborted[0].Producer] = t.aborted[0]
		t.aborted = t.aborted[1:]
	}
	if !b.Transactional() {
		return false
	}
	id := b.ProducerID()
	t.seen[id] = true
	a, ok := t.back[id]
	return ok && b.BaseOffset() < a.Last
}

// Marker takes a control batch, and reports whether nothing is left of the
// transaction that it ends: then it may go once its horizon has passed. A control
// batch that ends no transaction stays.
func (t *Transactions) Marker(b record.Batch) (free bool, err error) {
	kind, err := b.Marker()
	if err != nil {
		return false, err
	}
	switch id := b.ProducerID(); kind {
	case record.Abort, record.Commit:
		free = !t.seen[id]
		delete(t.seen, id)
		delete(t.back, id)
	case record.NoControl: // it was emptied before
		free = true
	}
	return free, nil
}
