package exchange

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
)

// askers is two brokers; from asks, and coordinator answers.
func askers(t *testing.T, remote bool) (w *world, from, coord *node) {
	leader := int32(1)
	if remote {
		leader = 2
	}
	w = newWorld(t, map[string]int32{states: leader, "data": 1}, 1, 2)
	return w, w.brokers[1], w.brokers[leader]
}

func inquiry(id string, add bool, partitions ...int32) gate.Question {
	q := gate.Question{ID: id, ProducerID: 7, Epoch: 2, Add: add, Deadline: time.Now().Add(time.Minute)}
	for _, p := range partitions {
		q.Partitions = append(q.Partitions, txn.AddedPartition{Partition: txn.Partition{Topic: "data", Index: p}})
	}
	return q
}

func (r *results) answers() (list []string) {
	for _, x := range r.take() {
		a := x.(gate.Answer)
		list = append(list, fmt.Sprintf("%v %v ce%d", a.Err, a.Partitions, a.CoordinatorEpoch))
	}
	slices.Sort(list)
	return list
}

func both(t *testing.T, test func(t *testing.T, w *world, from, coord *node, remote bool)) {
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprintf("remote=%v", remote), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, from, coord := askers(t, remote)
				defer w.close()
				test(t, w, from, coord, remote)
			})
		})
	}
}

func TestQuestionsReachTheCoordinator(t *testing.T) {
	both(t, func(t *testing.T, _ *world, from, coord *node, _ bool) {
		answer := func(e any) (any, error) {
			if v, ok := e.(txn.Verify); ok {
				return txn.Verified{Errs: []*kerr.Error{nil, kerr.TransactionAbortable}[:len(v.Partitions)], CoordinatorEpoch: 9}, nil
			}
			return txn.Added{CoordinatorEpoch: 9}, nil
		}
		coord.answers["id"] = answer
		coord.answers["fenced"] = func(any) (any, error) { return txn.Added{Err: kerr.ProducerFenced, CoordinatorEpoch: 9}, nil }
		var r results
		ask := func(q gate.Question) {
			from.Ask(q, func(a gate.Answer) { r.add(a) })
			synctest.Wait()
		}
		ask(inquiry("id", true, 0, 3))
		ask(inquiry("id", false, 1, 2))
		equal(t, r.answers(), fmt.Sprintf("<nil> [<nil> %v] ce9", kerr.TransactionAbortable), "<nil> [] ce9")
		ask(inquiry("fenced", true, 0))
		equal(t, r.answers(), kerr.ProducerFenced.Error()+" [] ce9")
		add, verify := coord.events[0].(txn.Add), coord.events[1].(txn.Verify)
		if add.ID != "id" || add.ProducerID != 7 || add.Epoch != 2 || add.Version != 2 || len(add.Partitions) != 2 ||
			add.Partitions[1] != (txn.AddedPartition{Partition: txn.Partition{Topic: "data", Index: 3}}) {
			t.Errorf("%+v", add)
		}
		if verify.ID != "id" || verify.ProducerID != 7 || verify.Epoch != 2 || !slices.Equal(verify.Partitions,
			[]txn.AddedPartition{{Partition: txn.Partition{Topic: "data", Index: 1}},
				{Partition: txn.Partition{Topic: "data", Index: 2}}}) {
			t.Errorf("%+v", verify)
		}
	})
}

func TestWithoutACoordinatorAQuestionIsAskedAgain(t *testing.T) {
	both(t, func(t *testing.T, w *world, from, coord *node, remote bool) {
		var r results
		for err, want := range map[error]*kerr.Error{
			coordinator.ErrNotCoordinator: kerr.NotCoordinator, coordinator.ErrLoading: kerr.CoordinatorLoadInProgress,
			coordinator.ErrBusy: kerr.CoordinatorLoadInProgress, coordinator.ErrRefused: kerr.CoordinatorNotAvailable,
		} {
			coord.answers["id"] = func(any) (any, error) { return nil, err }
			for _, add := range []bool{true, false} {
				from.Ask(inquiry("id", add, 0), func(a gate.Answer) { r.add(a) })
				synctest.Wait()
				equal(t, r.answers(), want.Error()+" [] ce0")
			}
		}
		if remote {
			w.link = func(context.Context, int32, int32, []byte) ([]byte, error) { return nil, errLink }
			from.Ask(inquiry("id", true, 0), func(a gate.Answer) { r.add(a) })
			synctest.Wait()
			equal(t, r.answers(), kerr.CoordinatorNotAvailable.Error()+" [] ce0")
			equal(t, w.said(), "questions about transactions to a broker fail; the producers try again 2")
		}
		for _, leader := range []int32{-1, 0} {
			leaders := map[string]int32{states: leader}
			if leader == 0 {
				leaders = nil
			}
			w.setLeaders(leaders, 1, 2)
			from.Ask(inquiry("id", true, 0), func(a gate.Answer) { r.add(a) })
			equal(t, r.answers(), kerr.CoordinatorNotAvailable.Error()+" [] ce0")
		}
	})
}

// The batches of a producer that begin its transaction in many partitions, and wait for a call, are
// one record.
func TestAddsOfAProducerAreOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, from, coord := askers(t, true)
		defer w.close()
		asked := make(chan struct{})
		coord.answers["first"] = func(any) (any, error) { <-asked; return txn.Added{CoordinatorEpoch: 8}, nil }
		coord.answers["id"] = func(e any) (any, error) {
			if slices.ContainsFunc(e.(txn.Add).Partitions, func(p txn.AddedPartition) bool { return p.Index == 3 }) {
				return txn.Added{Err: kerr.UnknownTopicOrPartition}, nil
			}
			return txn.Added{CoordinatorEpoch: 9}, nil
		}
		// events returns how many events ask for partitions that are all asked for while all calls
		// are on the way.
		var r, first results
		events := func(partitions int32) int {
			asked, coord.events = make(chan struct{}), nil
			for range askCalls {
				from.Ask(inquiry("first", true, 0), func(a gate.Answer) { first.add(a) })
				synctest.Wait()
			}
			before := len(coord.events)
			for i := range partitions {
				from.Ask(inquiry("id", true, i), func(a gate.Answer) { r.add(a) })
			}
			close(asked)
			synctest.Wait()
			n := 0
			for _, e := range coord.events[before:] {
				if e.(txn.Add).ID == "id" {
					n++
				}
			}
			return n
		}
		if n := events(3); n != 1 {
			t.Errorf("%d events", n)
		}
		equal(t, r.answers(), "<nil> [] ce9", "<nil> [] ce9", "<nil> [] ce9")
		// One that can't be added does not refuse the others.
		if n := events(4); n != 5 {
			t.Errorf("%d events", n)
		}
		equal(t, r.answers(), "<nil> [] ce9", "<nil> [] ce9", "<nil> [] ce9", kerr.UnknownTopicOrPartition.Error()+" [] ce0")
	})
}

// An add may wait for the end of the transaction before. Other questions must not wait for it.
func TestAQuestionThatWaitsDoesNotHoldUpTheOthers(t *testing.T) {
	both(t, func(t *testing.T, _ *world, from, coord *node, remote bool) {
		coord.answers["quick"] = func(any) (any, error) { return txn.Added{CoordinatorEpoch: 9}, nil }
		var r, waits results
		begun := time.Now()
		from.Ask(inquiry("waits", true, 0), func(a gate.Answer) { waits.add(a) })
		synctest.Wait()
		for range 10 {
			from.Ask(inquiry("quick", true, 0), func(a gate.Answer) { r.add(a) })
			synctest.Wait()
			equal(t, r.answers(), "<nil> [] ce9")
		}
		if !time.Now().Equal(begun) || len(waits.take()) != 0 {
			t.Errorf("after %v", time.Since(begun))
		}
		e := coord.events[0].(txn.Add)
		want := time.Minute
		if remote {
			want = parkTime
		}
		if d := e.Deadline.Sub(begun); d != want {
			t.Errorf("it waits for %v, want %v", d, want)
		}
		time.Sleep(askTime)
		synctest.Wait()
		if remote {
			equal(t, waits.answers(), kerr.CoordinatorNotAvailable.Error()+" [] ce0")
		}
		coord.pending[0](txn.Added{CoordinatorEpoch: 9}, nil) // too late for the remote one
		if n := len(waits.take()); remote && n != 0 || !remote && n != 1 {
			t.Errorf("%d answers", n)
		}
	})
}

// A question about more partitions than a call usually has is sent nevertheless.
func TestQuestionsAboutManyPartitions(t *testing.T) {
	both(t, func(t *testing.T, _ *world, from, coord *node, _ bool) {
		most := 0
		coord.answers["id"] = func(e any) (any, error) {
			most = max(most, len(e.(txn.Add).Partitions))
			return txn.Added{CoordinatorEpoch: 9}, nil
		}
		var r results
		from.Ask(inquiry("id", true, make([]int32, 3*maxCall)...), func(a gate.Answer) { r.add(a) })
		synctest.Wait()
		equal(t, r.answers(), "<nil> [] ce9")
		if most != 3*maxCall {
			t.Errorf("%d partitions arrived", most)
		}
	})
}
