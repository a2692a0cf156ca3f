package stream

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
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
			if len(all) > 0 || u.Held || u.Records != 0 || e.LastStable != e.HighWatermark {
				w.t.Errorf("%s: broker %d: %+v, %+v, %+v", when, id, all, u, e)
			}
			continue
		}
		if len(all) != 1 || all[0].ID != 7 || all[0].First != 1 || e.LastStable != 1 || u.Records != e.HighWatermark-1 ||
			!u.Held || !u.Open || u.Holder != all[0] || u.Age < 0 {
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

// A follower serves readers of committed records up to its own last stable offset, with the aborted
// transactions of its own log: a marker that only the leader has counts at the leader alone.
func TestAFollowerServesCommittedRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := three(t, 1)
		defer w.close()
		must(t, l.produce(0, replica.AcksAll, 1, 10).wait(t))
		must(t, l.transact(7, l.partition(0).Log().Guard(7)).wait(t))
		w.converge(1, 2, 3)
		read := func(when string, end int64, aborted ...txnindex.Entry) {
			t.Helper()
			res, err := w.nodes[2].partition(0).Read(replica.ReadRequest{MaxBytes: 1 << 20, Committed: true, AnyReplica: true,
				CurrentEpoch: -1, FetchedEpoch: -1})
			must(t, err)
			defer res.Release()
			next := int64(0)
			for _, p := range res.Parts {
				for len(p) > 0 {
					b, rest, err := record.Next(p)
					must(t, err)
					next, p = b.LastOffset()+1, rest
				}
			}
			if next != end || res.LastStable != end || !slices.Equal(res.Aborted, aborted) {
				t.Errorf("%s: records up to %d, last stable offset %d, aborted %+v", when, next, res.LastStable, res.Aborted)
			}
		}
		read("while it is open", 1)
		w.isolate(true)
		ended := l.abort()
		synctest.Wait()
		if p, _ := l.partition(0).Log().Producer(7); p.First >= 0 {
			t.Fatalf("%+v", p)
		}
		read("when only the leader has the marker", 1)
		w.isolate(false)
		must(t, ended.wait(t))
		w.converge(1, 2, 3)
		read("when it is over", 3, txnindex.Entry{Producer: 7, First: 1, Last: 2, Stable: 3})
	})
}
