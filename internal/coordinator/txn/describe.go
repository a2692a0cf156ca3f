package txn

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Describe asks for the state of transactional ids. The response is a []Description in the order of
// IDs.
type Describe struct{ IDs []string }

// Description is the state of a transactional id. Partitions are those of the open transaction, or
// those that lack the marker of a decided one.
type Description struct {
	ID         string
	Err        *kerr.Error // TRANSACTIONAL_ID_NOT_FOUND; then only ID is set
	State      State
	ProducerID int64
	Epoch      int16
	TimeoutMs  int32
	StartMs    int64 // of the last transaction, ms since 1970; -1 before the first one
	Partitions []Partition
}

// List asks for the transactional ids that match all filters. The response is a []Description
// without partitions, in the order of the ids.
type List struct {
	States      []State       // empty: any
	ProducerIDs []int64       // empty: any
	Longer      time.Duration // since the start of the transaction; negative: any
}

// Survey asks for figures of all transactional ids. The response is a Figures.
type Survey struct{}

// Figures describes the transactional ids of a Shard.
type Figures struct {
	IDs    map[State]int
	Parked int // requests that wait for the end of a transaction
	// Undone are transactions that were decided at least UndoneAfter ago and have not ended, the
	// oldest first, at most maxUndone.
	Undone []Undone
}

// Undone is a decided transaction that has not ended. Missing are the partitions that lack the
// marker, those that answered an error first. If there is none, the log accepts no record of the
// end.
type Undone struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Commit     bool
	SinceMs    int64 // ms since 1970
	Missing    []Partition
	LastError  *kerr.Error // of the first missing partition; nil: it has not answered
}

// UndoneAfter is how long the markers of a transaction may take before operators are notified.
const UndoneAfter = 30 * time.Second

const maxUndone = 100

func (s *Shard) describe(e Describe) []Description {
	list := make([]Description, len(e.IDs))
	for i, id := range e.IDs {
		t := s.ids[id]
		if t == nil {
			list[i] = Description{ID: id, Err: kerr.TransactionalIDNotFound}
			continue
		}
		list[i] = t.describe(id)
		if list[i].Partitions = slices.Clone(t.partitions); t.state.prepared() && t.live != nil {
			list[i].Partitions = slices.SortedFunc(maps.Keys(t.live.missing), comparePartitions)
		}
	}
	return list
}

func (t *transaction) describe(id string) Description {
	return Description{ID: id, State: t.state, ProducerID: t.pid, Epoch: t.epoch, TimeoutMs: t.timeout, StartMs: t.start}
}

func (s *Shard) list(e List) []Description {
	list := []Description{}
	for _, id := range slices.Sorted(maps.Keys(s.ids)) {
		t := s.ids[id]
		switch {
		case len(e.States) > 0 && !slices.Contains(e.States, t.state):
		case len(e.ProducerIDs) > 0 && !slices.Contains(e.ProducerIDs, t.pid):
		case e.Longer >= 0 && s.now.UnixMilli()-t.start <= e.Longer.Milliseconds():
		default:
			list = append(list, t.describe(id))
		}
	}
	return list
}

func (s *Shard) survey() Figures {
	f := Figures{IDs: map[State]int{}}
	for id, t := range s.ids {
		f.IDs[t.state]++
		f.Parked += len(t.parked)
		if t.state.prepared() && s.now.UnixMilli()-t.update >= UndoneAfter.Milliseconds() {
			f.Undone = append(f.Undone, t.undone(id))
		}
	}
	slices.SortFunc(f.Undone, func(a, b Undone) int { return cmp.Or(cmp.Compare(a.SinceMs, b.SinceMs), cmp.Compare(a.ID, b.ID)) })
	f.Undone = f.Undone[:min(len(f.Undone), maxUndone)]
	return f
}

func (t *transaction) undone(id string) Undone {
	u := Undone{ID: id, ProducerID: t.pid, Epoch: t.epoch, Commit: t.state.commits(), SinceMs: t.update}
	if t.live == nil {
		return u
	}
	silent := func(p Partition) int {
		if t.live.missing[p].lastFail == nil {
			return 1
		}
		return 0
	}
	u.Missing = slices.SortedFunc(maps.Keys(t.live.missing), func(a, b Partition) int {
		return cmp.Or(silent(a)-silent(b), comparePartitions(a, b))
	})
	if len(u.Missing) > 0 {
		u.LastError = t.live.missing[u.Missing[0]].lastFail
	}
	return u
}
