package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// send sends markers of broker 1's coordinator.
func (w *world) send(r *results, list ...txn.WriteMarker) {
	var batch groupcommit.Batch
	for _, m := range list {
		w.brokers[1].Send(9, 5, m, &batch, r.add)
	}
	batch.HandOff()
}

// two is two brokers: 1 leads the topic "here" and the coordinators, and 2 leads "there" and the
// groups' offsets.
func two(t *testing.T) *world {
	return newWorld(t, map[string]int32{states: 1, "here": 1, "there": 2, "far": 2, offsets: 2, "none": -1}, 1, 2)
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestOrdersReachTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		var r results
		w.send(&r, marker("here", 1), marker("there", 2), marker(offsets, 3), marker("none", 4), marker("gone", 5))
		for i, topic := range []string{"here", "there"} {
			n := int32(i)
			f := txn.Flush{ID: "id", ProducerID: int64(6 + n), Epoch: 2, LeaderEpoch: 8 + n, Partition: txn.Partition{Topic: topic}}
			w.brokers[1].Send(9, 5, f, nil, r.add)
		}
		synctest.Wait()
		var got []string
		for _, x := range r.take() {
			switch x := x.(type) {
			case txn.Marked:
				got = append(got, fmt.Sprint(x.ProducerID, " ", x.Err))
			case txn.Flushed:
				got = append(got, fmt.Sprint(x.ProducerID, " ", x.Err))
			}
		}
		slices.Sort(got)
		equal(t, got, "1 <nil>", "2 <nil>", "3 <nil>", "4 "+kerr.LeaderNotAvailable.Error(), "5 "+kerr.UnknownTopicOrPartition.Error(),
			"6 <nil>", "7 <nil>")
		equal(t, w.brokers[1].part("here").log(), "1 3 true ce5", "flush 6 2 in 8")
		equal(t, w.brokers[2].part("there").log(), "2 3 true ce5", "flush 7 2 in 9")
		want := Marker{ProducerID: 3, Epoch: 3, CoordinatorEpoch: 5, Commit: true, Bumps: true}
		if m := w.brokers[2].offsets; len(m) != 1 || m[0] != want {
			t.Errorf("%+v", m)
		}
		a := w.brokers[2].part("there").appends[0]
		if a.LeaderEpoch != leaderEpoch || a.Kind != storage.Marker || !a.Durable || a.Acks != replica.AcksAll ||
			!a.Sender.Bumps || a.Sender.Foreign {
			t.Errorf("%+v", a)
		}
	})
}

// A late copy of an order finds another leader epoch, if the partition was led elsewhere meanwhile.
func TestAnOrderIsForOneLeaderEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		w.brokers[2].part(offsets).epoch++
		var r results
		w.send(&r, marker(offsets, 3))
		synctest.Wait()
		equal(t, r.marked(), offsets+"-3: "+kerr.NotLeaderForPartition.Error())
		if m := w.brokers[2].offsets; len(m) > 0 {
			t.Errorf("%+v", m)
		}
	})
}

// The markers of a transaction are appended together, by the goroutine that sends them.
func TestMarkersOnThisBrokerShareACommit(t *testing.T) {
	w := two(t)
	defer w.close()
	var r results
	list := make([]txn.WriteMarker, 4)
	for i := range list {
		list[i] = marker("here", 1)
		list[i].Partition.Index = int32(i)
	}
	w.send(&r, list...)
	if n := len(w.brokers[1].part("here").batches); n != 1 || len(r.take()) != 4 {
		t.Errorf("%d batches", n)
	}
}

func TestEveryErrorIsAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		for _, c := range []struct {
			err  error
			want *kerr.Error
		}{
			{nil, nil},
			{&producers.CoordinatorFenced{Epoch: 12, Sent: 5}, kerr.TransactionCoordinatorFenced},
			{fmt.Errorf("%w; %w", replica.ErrDeleted, replica.ErrNotLeader), kerr.UnknownTopicOrPartition},
			{replica.ErrNotLeader, kerr.NotLeaderForPartition},
			{replica.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
			{storage.ErrLowSpace, kerr.KafkaStorageError},
			{storage.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
			{coordinator.ErrLoading, kerr.CoordinatorLoadInProgress},
			{errors.New("never seen"), kerr.UnknownServerError},
		} {
			for _, topic := range []string{"here", "there"} {
				for _, n := range w.brokers {
					n.part(topic).set(func(int64) (error, bool) { return c.err, true })
				}
				var r results
				w.send(&r, marker(topic, 1))
				synctest.Wait()
				got := r.take()
				if len(got) != 1 || got[0].(txn.Marked).Err != c.want || got[0].(txn.Marked).WriteMarker != marker(topic, 1) {
					t.Errorf("%v in %s: %+v, want %v", c.err, topic, got, c.want)
				}
			}
		}
		equal(t, w.brokers[1].fenced, "9 5 12", "9 5 12")
	})
}

// C8: a marker waits for the one before, so that a late copy can't end the next transaction.
func TestOneMarkerOfAProducerIsOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, topic := range []string{"here", "there"} {
			w := two(t)
			leader := w.brokers[map[string]int32{"here": 1, "there": 2}[topic]]
			p := leader.part(topic)
			p.set(func(pid int64) (error, bool) { return nil, pid != 1 })
			var first, second, third, other results
			w.send(&first, marker(topic, 1))
			synctest.Wait()
			w.send(&second, marker(topic, 1))
			w.send(&third, marker(topic, 1))
			elsewhere := marker(topic, 1)
			elsewhere.Partition.Index = 1
			p.set(func(int64) (error, bool) { return nil, true })
			w.send(&other, elsewhere)
			synctest.Wait()
			equal(t, second.marked(), topic+"-1: "+kerr.OperationNotAttempted.Error()) // its machine is gone: the third one has its place
			if topic == "here" {
				equal(t, other.marked(), topic+"-1: <nil>")
				p.appends[0].Done(p.appends[0])
			} else {
				time.Sleep(orderTime) // the answer of the first
			}
			synctest.Wait()
			if len(first.take()) != 1 || len(p.log()) != 3 {
				t.Errorf("%s: %q", topic, p.log())
			}
			equal(t, third.marked(), topic+"-1: <nil>")
			w.close()
			if len(w.brokers[1].out) != 0 {
				t.Errorf("%s: %d markers count as on the way", topic, len(w.brokers[1].out))
			}
		}
	})
}

// A call whose link broke may still arrive. If the next one, with the same marker, has begun
// before, it must append nothing: the producer's next transaction may be open.
func TestACallThatWasGivenUpIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		var late [][]byte
		w.link = func(_ context.Context, _, _ int32, body []byte) ([]byte, error) {
			late = append(late, body)
			return nil, errLink
		}
		var r results
		w.send(&r, marker("there", 1))
		synctest.Wait()
		equal(t, r.marked(), "there-1: "+kerr.NetworkException.Error())
		w.mu.Lock()
		w.link = w.deliver
		w.mu.Unlock()
		w.send(&r, marker("there", 1))
		synctest.Wait()
		equal(t, r.marked(), "there-1: <nil>")
		if _, err := w.deliver(t.Context(), 1, 2, late[0]); !errors.Is(err, errDead) {
			t.Errorf("a dead call: %v", err)
		}
		// Nor may a call of an earlier process of the sender.
		there := w.image.Topic("there").ID
		old := orderCall{life: 6, number: 99, orders: []order{{partition: txn.Partition{Topic: "there"}, topic: there}}}
		if _, err := w.deliver(t.Context(), 1, 2, old.encode()); !errors.Is(err, errDead) {
			t.Errorf("a call of an earlier process: %v", err)
		}
		equal(t, w.brokers[2].part("there").log(), "1 3 true ce5")
		// A later process begins with the first number again.
		next := orderCall{life: 8, number: 1, orders: []order{{partition: txn.Partition{Topic: "there"}, topic: there}}}
		if _, err := w.deliver(t.Context(), 1, 2, next.encode()); err != nil {
			t.Error(err)
		}
	})
}

// A topic is deleted and created again while an order is on the way, which was not for that one.
func TestAnOrderIsForOneTopicOfAName(t *testing.T) {
	for _, topic := range []string{"here", "there"} {
		synctest.Test(t, func(t *testing.T) {
			w := two(t)
			defer w.close()
			first := w.image
			w.incarnation = 1
			w.setLeaders(map[string]int32{states: 1, "here": 1, "there": 2}, 1, 2)
			var r results
			w.see(1, first) // broker 1 sends what it knows
			w.send(&r, marker(topic, 1))
			w.see(1, nil)
			synctest.Wait()
			w.send(&r, marker(topic, 2))
			synctest.Wait()
			equal(t, r.marked(), topic+"-1: "+kerr.UnknownTopicOrPartition.Error(), topic+"-2: <nil>")
			equal(t, w.brokers[w.image.Topic(topic).Partitions.At(0).Leader].part(topic).log(), "2 3 true ce5")
		})
	}
}

// A doubled call repeats its markers while the first copy is unanswered; the receiver's log
// decides.
func TestALostAnswerIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		lost := true
		w.link = func(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
			answer, err := w.deliver(ctx, from, to, body)
			if lost {
				return nil, errLink
			}
			return answer, err
		}
		var r results
		w.send(&r, marker("there", 1), marker("there", 2))
		synctest.Wait()
		equal(t, r.marked(), "there-1: "+kerr.NetworkException.Error(), "there-2: "+kerr.NetworkException.Error())
		said := slices.Compact(w.said()) // they may go in two calls
		equal(t, said, "transaction markers to a broker fail; they are repeated 2")
		time.Sleep(time.Minute)
		lost = false
		w.send(&r, marker("there", 1))
		synctest.Wait()
		equal(t, r.marked(), "there-1: <nil>")
		equal(t, w.said(), "transaction markers to a broker are answered again 2")
		w.link = func(context.Context, int32, int32, []byte) ([]byte, error) { return []byte{wireVersion, 0}, nil }
		w.send(&r, marker("there", 1))
		synctest.Wait()
		equal(t, r.marked(), "there-1: "+kerr.NetworkException.Error())
		equal(t, w.said(), "transaction markers to a broker fail; they are repeated 2")
	})
}

// A partition that hangs holds up the others once, and then only itself.
func TestASlowPartitionDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		slow := w.brokers[2].part("far")
		slow.set(func(int64) (error, bool) { return nil, false })
		var r results
		begun := time.Now()
		w.send(&r, marker("there", 1), marker("far", 2))
		synctest.Wait()
		time.Sleep(orderTime)
		synctest.Wait()
		equal(t, r.marked(), "far-2: "+kerr.RequestTimedOut.Error(), "there-1: <nil>")
		w.send(&r, marker("far", 2))
		for i := range int64(10) {
			w.send(&r, marker("there", 3+i))
			synctest.Wait()
			equal(t, r.marked(), fmt.Sprintf("there-%d: <nil>", 3+i))
		}
		if d := time.Since(begun); d != orderTime {
			t.Errorf("the others waited %v", d)
		}
		slow.set(nil)
		time.Sleep(orderTime)
		synctest.Wait()
		equal(t, r.marked(), "far-2: "+kerr.RequestTimedOut.Error())
		w.send(&r, marker("far", 2))
		synctest.Wait()
		equal(t, r.marked(), "far-2: <nil>")
		w.send(&r, marker("far", 2), marker("there", 1))
		synctest.Wait()
		if p := w.brokers[1].peer(2); len(p.slow) != 0 || p.slowOrders.Waiting() != 0 {
			t.Error("a partition that has answered counts as slow")
		}
		r.take()
	})
}

// The markers for a broker that is gone are bounded; more of them are errors.
func TestMarkersThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		calls, sizes := make(chan struct{}), []int{}
		w.link = func(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
			c, err := decodeOrders(body)
			sizes = append(sizes, len(c.orders))
			if err != nil {
				return nil, err
			}
			select {
			case <-calls:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return w.deliver(ctx, from, to, body)
		}
		var r results
		w.send(&r, marker("there", -1))
		synctest.Wait()
		for pid := range int64(maxWaiting - 1) {
			w.send(&r, marker("there", pid))
		}
		if n := w.brokers[1].Waiting()[2]; n != maxWaiting {
			t.Errorf("%d wait", n)
		}
		w.send(&r, marker("there", maxWaiting))
		if errs := r.marked(); len(errs) != 1 || !strings.Contains(errs[0], kerr.RequestTimedOut.Error()) {
			t.Errorf("%q", errs)
		}
		calls <- struct{}{}
		calls <- struct{}{}
		synctest.Wait()
		if got := len(r.marked()); got != 1+maxCall || !slices.Equal(sizes, []int{1, maxCall, maxCall}) {
			t.Errorf("%d results of calls with %v orders", got, sizes)
		}
		w.close()
		if n := len(r.marked()); n != maxWaiting-1-maxCall {
			t.Errorf("%d results after the end", n)
		}
		w.send(&r, marker("there", 1), marker("here", 1))
		if n := len(r.marked()); n != 2 {
			t.Errorf("%d results of requests after the end", n)
		}
	})
}

func TestACallWithoutAnAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		w.link = func(ctx context.Context, _, _ int32, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var r results
		w.send(&r, marker("there", 1))
		time.Sleep(callTime)
		synctest.Wait()
		equal(t, r.marked(), "there-1: "+kerr.NetworkException.Error())
	})
}

func TestMarkersOfATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		defer w.close()
		w.brokers[1].part("here").set(func(pid int64) (error, bool) {
			return map[int64]error{2: storage.ErrForeignMarker}[pid], pid != 3
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		at := txn.Partition{Topic: "here"}
		// A marker in the topic of transactional ids would keep the coordinator from loading.
		errs := w.brokers[1].WriteMarkers(ctx,
			[]Marker{{ProducerID: 1}, {ProducerID: 5}, {ProducerID: 2}, {ProducerID: 3}, {ProducerID: 4}},
			[]txn.Partition{at, {Topic: states}, at, at, {Topic: "gone"}})
		want := []*kerr.Error{nil, kerr.InvalidTopicException, kerr.InvalidRequest, kerr.RequestTimedOut, kerr.UnknownTopicOrPartition}
		if !slices.Equal(errs, want) {
			t.Errorf("%v", errs)
		}
		if a := w.brokers[1].part("here").appends[0]; !a.Sender.Foreign {
			t.Errorf("%+v", a.Sender)
		}
	})
}
