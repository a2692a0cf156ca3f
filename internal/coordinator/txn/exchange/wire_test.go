package exchange

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
)

func someOrders() orderCall {
	return orderCall{life: 17, number: 300, dead: 299, orders: []order{
		{Marker: Marker{ProducerID: 1, Epoch: math.MaxInt16, CoordinatorEpoch: 7, Commit: true, Bumps: true},
			leaderEpoch: 4, partition: txn.Partition{Topic: "a", Index: 3}, topic: [16]byte{1, 15: 2}},
		{Marker: Marker{ProducerID: math.MaxInt64, Epoch: 0, CoordinatorEpoch: math.MaxInt32}, leaderEpoch: -1,
			partition: txn.Partition{Topic: "b"}},
		{Marker: Marker{ProducerID: 2, Epoch: 5}, flush: true, leaderEpoch: 9, partition: txn.Partition{Topic: "a", Index: math.MaxInt32}},
	}}
}

func someAsks() askCall {
	now := time.Now()
	return askCall{now: now, questions: []gate.Question{
		{ID: "x", ProducerID: 1, Epoch: 2, Add: true, Deadline: now.Add(time.Second), Partitions: []txn.AddedPartition{
			{Partition: txn.Partition{Topic: "a", Index: 3}, TopicID: [16]byte{7}},
			{Partition: txn.Partition{Topic: "b"}}}},
		{ID: "", ProducerID: -1, Epoch: -1, Deadline: now, Partitions: []txn.AddedPartition{{}}},
	}}
}

func TestCallsAreDecodedAsTheyWereEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time stands still
		orders, asks := someOrders(), someAsks()
		if got, err := decodeOrders(orders.encode()); err != nil || !reflect.DeepEqual(got, orders) {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := decodeAsks(asks.encode()); err != nil || !reflect.DeepEqual(got, asks) {
			t.Errorf("%+v, %v", got, err)
		}
		verdicts := []verdict{{}, {err: kerr.TransactionCoordinatorFenced, known: 12}, {err: kerr.UnknownServerError}}
		if got, err := decodeVerdicts(encodeVerdicts(verdicts), 3); err != nil || !reflect.DeepEqual(got, verdicts) {
			t.Errorf("%+v, %v", got, err)
		}
		answers := []gate.Answer{{CoordinatorEpoch: 4}, {Err: kerr.ProducerFenced}}
		if got, err := decodeAnswers(encodeAnswers(answers), asks.questions); err != nil || !reflect.DeepEqual(got, answers) {
			t.Errorf("%+v, %v", got, err)
		}
		answers[0].Partitions = []*kerr.Error{nil, kerr.TransactionAbortable}
		if got, err := decodeAnswers(encodeAnswers(answers), asks.questions); err != nil || !reflect.DeepEqual(got, answers) {
			t.Errorf("%+v, %v", got, err)
		}
		answers[0].Partitions = answers[0].Partitions[:1]
		if _, err := decodeAnswers(encodeAnswers(answers), asks.questions); !errors.Is(err, errWire) {
			t.Errorf("an answer about one of two partitions: %v", err)
		}
	})
}

func TestCallsOfOtherVersionsAreRefused(t *testing.T) {
	w := newWorld(t, nil, 1)
	defer w.close()
	orders := someOrders()
	for _, change := range []func([]byte) []byte{
		func(b []byte) []byte { b[0]++; return b },
		func(b []byte) []byte { b[1] = 3; return b },
		func(b []byte) []byte { return b[:1] },
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { return append(b, 0) },
	} {
		if _, err := w.brokers[1].Handle(t.Context(), 2, change(orders.encode())); !errors.Is(err, errWire) {
			t.Errorf("%v", err)
		}
	}
}

// Whatever arrives is an error, or a call that is encoded in the same way again.
func FuzzCalls(f *testing.F) {
	orders, asks := someOrders(), someAsks()
	f.Add(orders.encode())
	f.Add(asks.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, err := kindOf(b)
		if err != nil {
			return
		}
		if kind == callOrders {
			if c, err := decodeOrders(b); err == nil {
				again, err := decodeOrders(c.encode())
				if err != nil || !bytes.Equal(c.encode(), again.encode()) {
					t.Errorf("%+v became %+v, %v", c, again, err)
				}
			}
			return
		}
		if c, err := decodeAsks(b); err == nil {
			if _, err := decodeAsks(c.encode()); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add(encodeVerdicts([]verdict{{}, {err: kerr.InvalidProducerEpoch, known: 3}}))
	f.Add(encodeAnswers([]gate.Answer{{CoordinatorEpoch: 4}, {Err: kerr.ProducerFenced}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := decodeVerdicts(b, 2); err == nil && len(list) != 2 {
			t.Errorf("%+v", list)
		}
		asks := someAsks()
		if list, err := decodeAnswers(b, asks.questions); err == nil && len(list) != 2 {
			t.Errorf("%+v", list)
		}
	})
}
