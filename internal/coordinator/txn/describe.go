package txn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
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

// Survey asks for what a Shard knows of its transactional ids. The response is a view.Transactions
// with IDs, Parked, and Undone: the transactions that were decided at least UndoneAfter ago, the
// oldest first.
type Survey struct{}

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
			list[i].Partitions = sorts.Sorted(maps.Keys(t.live.missing), comparePartitions)
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

func (s *Shard) survey() view.Transactions {
	f := view.Transactions{IDs: map[string]int{}}
	for id, t := range s.ids {
		f.IDs[t.state.String()]++
		f.Parked += len(t.parked)
		if t.state.prepared() && s.now.UnixMilli()-t.update >= UndoneAfter.Milliseconds() {
			f.Undone = append(f.Undone, t.undone(id))
		}
	}
	sorts.Sort(f.Undone, func(a, b view.Undone) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	f.Undone = f.Undone[:min(len(f.Undone), maxUndone)]
	return f
}

// undone names one of the partitions that lack the marker: if possible, one that answered an error.
func (t *transaction) undone(id string) view.Undone {
	u := view.Undone{ID: id, Commit: t.state.commits(), Since: time.UnixMilli(t.update)}
	if t.live == nil {
		return u
	}
	silent := func(p Partition) int {
		if t.live.missing[p].lastFail == nil {
			return 1
		}
		return 0
	}
	missing := sorts.Sorted(maps.Keys(t.live.missing), func(a, b Partition) int {
		return cmp.Or(silent(a)-silent(b), comparePartitions(a, b))
	})
	if u.Missing = len(missing); u.Missing > 0 {
		u.Partition = fmt.Sprintf("%s-%d", missing[0].Topic, missing[0].Index)
		if fail := t.live.missing[missing[0]].lastFail; fail != nil {
			u.Error = fail.Message
		}
	}
	return u
}
