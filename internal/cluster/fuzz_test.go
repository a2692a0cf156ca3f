package cluster

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/view"
)

// Bytes of another broker never panic, and what is accepted means the same after another round.
func FuzzOperations(f *testing.F) {
	zero := metadata.FormatID([16]byte{})
	f.Add([]byte(`{"broker":3}`))
	f.Add([]byte(`{"partitions":[{"topic":"` + zero + `","partition":7}]}`))
	f.Add([]byte(`{"revision":6,"errors":[{},{"kind":1,"text":"why"},{"text":"failed"}]}`))
	f.Add([]byte(`{"incarnation":"` + zero + `","partitions":[{"topic":"` + zero + `","partition":0}]}`))
	f.Add([]byte(`{"logs":[{"topic":"` + zero + `","partition":0,"lastEpoch":2,"end":100}]}`))
	logs := []metadata.TopicPartition{{}, {Partition: 7}}
	r := &reporter{end: func(tp metadata.TopicPartition) (election.LogState, bool) {
		end := election.LogState{LastEpoch: tp.Partition, RecordEpoch: tp.Partition, End: int64(tp.Partition) + 1}
		return end, tp.Partition >= 0 && tp.Partition < math.MaxInt32
	}}
	f.Fuzz(func(t *testing.T, p []byte) {
		again[unregisterRequest](t, p)
		again[electRequest](t, p)
		again[view.SnapshotAsk](t, p)
		again[view.SnapshotAnswer](t, p)
		again[view.Snapshots](t, p)
		var a outcome
		if decodeOperation(p, &a) == nil {
			for _, e := range a.Errors {
				if (e.err() == nil) != (e == refusal{}) {
					t.Errorf("%+v is the error %v", e, e.err())
				}
			}
		}
		if got, err := unpackReports(p, logs); err == nil {
			for tp, state := range got {
				if tp != logs[0] && tp != logs[1] || state.LastEpoch < state.RecordEpoch || state.RecordEpoch < -1 || state.End < 0 {
					t.Errorf("accepted %+v of %+v", state, tp)
				}
			}
		}
		if q, err := r.answer(p); err == nil {
			var a reportsAnswer
			if err := decodeOperation(q, &a); err != nil {
				t.Errorf("%s answers %s: %v", p, q, err)
			}
		}
	})
}

// again checks that a request that is accepted has the same content after another round.
func again[T any](t *testing.T, p []byte) {
	var first, second T
	if decodeOperation(p, &first) != nil {
		return
	}
	text, err := json.Marshal(first)
	if err == nil {
		err = decodeOperation(text, &second)
	}
	if err != nil || !reflect.DeepEqual(first, second) {
		t.Errorf("%+v became %+v, %v", first, second, err)
	}
}

// A later version may add fields to a request and to an answer.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	zero := metadata.FormatID([16]byte{})
	var q unregisterRequest
	if err := decodeOperation([]byte(`{"later":{"a":[1]},"broker":3}`), &q); err != nil || q.Broker != 3 {
		t.Errorf("a request: %+v, %v", q, err)
	}
	r := &reporter{end: func(metadata.TopicPartition) (election.LogState, bool) {
		return election.LogState{LastEpoch: 4, End: 50}, true
	}}
	body := `{"incarnation":"` + zero + `","later":true,"partitions":[{"topic":"` + zero + `","partition":7,"later":1}]}`
	p, err := r.answer([]byte(body))
	if err != nil || !strings.Contains(string(p), `"end":50`) {
		t.Errorf("%s, %v", p, err)
	}
	p = []byte(strings.Replace(string(p), `"end":50`, `"later":null,"end":50`, 1))
	got, err := unpackReports(p, []metadata.TopicPartition{{Partition: 7}})
	if err != nil || got[metadata.TopicPartition{Partition: 7}].End != 50 {
		t.Errorf("an answer: %+v, %v", got, err)
	}
}
