package stream

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// transact appends a batch in a transaction with a guard.
func (n *node) transact(producer int64, guard *producers.Guard) *outcome {
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: producer}, Transactional: true})
	b.Append(1, nil, []byte("v"), nil)
	data, err := b.Build()
	must(n.w.t, err)
	d := &outcome{ended: make(chan struct{})}
	d.LeaderEpoch, d.Acks, d.Permit = -1, replica.AcksAll, producers.Permit{Guard: guard}
	d.Batches = record.Accepted{Bytes: data, Batches: 1, Records: 1}
	d.Done = func(*replica.Append) { close(d.ended) }
	n.partition(0).Append(&d.Append, nil)
	return d
}

// wantOpen checks that the transaction of producer 7 is the only open one, or that none is.
func (w *world) wantOpen(when string, open bool) {
	w.t.Helper()
	for id := int32(1); id <= 3; id++ {
		p := w.nodes[id].partition(0)
		all, u, e := p.OpenTransactions(), p.Unstable(time.Now()), p.Ends()
		if !open {
			if len(all) > 0 || u.Open || u.Records != 0 || e.LastStable != e.HighWatermark {
				w.t.Errorf("%s: broker %d: %+v, %+v, %+v", when, id, all, u, e)
			}
			continue
		}
		if len(all) != 1 || all[0].ID != 7 || all[0].First != 1 || e.LastStable != 1 || u.Records != e.HighWatermark-1 || !u.Open ||
			u.Holder != all[0] || u.Age < 0 {
			w.t.Errorf("%s: broker %d: %+v, %+v, %+v", when, id, all, u, e)
		}
	}
}

// Followers know the open transactions. One that becomes the leader has no guards, and a marker
// that only the former leader had is undone there: the transaction is open until the next marker.
func TestTransactionsOutliveALeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := three(t, 1)
		defer w.close()
		must(t, l.produce(0, replica.AcksAll, 1, 10).wait(t))
		must(t, l.transact(7, l.partition(0).Log().Guard(7)).wait(t))
		w.converge(1, 2, 3)
		w.wantOpen("in the first epoch", true)
		guard := w.nodes[2].partition(0).Log().Guard(9)

		w.isolate(true)
		lost := l.mark() // reaches no follower
		synctest.Wait()
		if p, _ := l.partition(0).Log().Producer(7); p.First >= 0 {
			t.Fatalf("%+v", p)
		}
		w.assign(2, 2, 2, 3)
		if err := lost.wait(t); !errors.Is(err, replica.ErrNotLeader) {
			t.Error(err)
		}
		w.isolate(false)
		w.converge(2, 1, 3)
		w.wantOpen("in the second epoch", true)
		l = w.nodes[2]
		if err := l.transact(9, guard).wait(t); !errors.Is(err, producers.ErrUnverified) {
			t.Errorf("with a guard of the time as a follower: %v", err)
		}
		must(t, l.mark().wait(t))
		w.converge(2, 1, 3)
		w.wantOpen("after the marker", false)
		if p, known := w.nodes[1].partition(0).Log().Producer(7); !known || p.Epoch != 1 || p.CoordinatorEpoch != 0 {
			t.Errorf("the former leader knows %+v", p)
		}
	})
}
