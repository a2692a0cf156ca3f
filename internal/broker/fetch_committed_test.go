package broker

import (
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// appended receives appends that have their offsets.
type appended chan *storage.Append

// OffsetsAssigned implements storage.Sink.
func (s appended) OffsetsAssigned(a *storage.Append) { s <- a }

// handmade appends transactions to a log as their coordinator would.
type handmade struct {
	p *replica.Partition
	t testing.TB
}

func (h handmade) append(a *storage.Append) {
	h.t.Helper()
	sent := make(appended, 1)
	a.Sink = sent
	_, a.LeaderEpoch = h.p.Leader()
	h.p.Log().Append(a, nil)
	<-sent
	must(h.t, a.Err)
}

func (h handmade) in(id int64, epoch int16) {
	h.t.Helper()
	w := record.NewBuilder(record.BatchOptions{Transactional: true, Producer: &record.Producer{ID: id, Epoch: epoch, Sequence: -1}})
	w.Append(1, nil, []byte("v"), nil)
	b, err := w.Build()
	must(h.t, err)
	h.append(&storage.Append{Batches: b, Permit: producers.Permit{Guard: h.p.Log().Guard(id), CoordinatorEpoch: math.MaxInt32}})
}

func (h handmade) end(id int64, epoch int16, kind record.ControlType) {
	h.t.Helper()
	h.append(&storage.Append{Kind: storage.Marker, Batches: record.EndTxnMarker(id, epoch, kind, 0, 1)})
}

// committed asks for committed records from an offset on, and describes the answer.
func committed(t testing.TB, w *wire, version int16, offset int64, rt kmsg.FetchRequestTopic) string {
	t.Helper()
	req := fetchRequest(offset, rt)
	req.IsolationLevel = 1
	resp := ask[*kmsg.FetchResponse](t, w, version, req)
	p := resp.Topics[0].Partitions[0]
	text := fmt.Sprintf("%d of %d, %d:", p.LastStableOffset, p.HighWatermark, p.ErrorCode)
	for _, x := range p.AbortedTransactions {
		text += fmt.Sprintf(" %d@%d", x.ProducerID, x.FirstOffset)
	}
	return text + fmt.Sprint(" ", offsets(t, p.RecordBatches))
}

// In every version, a consumer of committed records gets those below the last stable offset, and
// the aborted transactions among them. Its offsets also end there.
func TestAConsumerGetsCommittedRecords(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	h := handmade{p, t}
	h.in(7, 0)
	h.in(8, 0)
	h.in(7, 0)
	h.end(7, 1, record.Abort)
	h.end(8, 1, record.Commit)
	h.in(9, 0)
	h.in(7, 1)
	h.end(7, 2, record.Abort)
	n.put(t, "t", 1, "a")
	w := n.dial(t)
	for version := int16(4); version <= 18; version++ {
		for at, want := range map[int64]string{
			0: "5 of 9, 0: 7@0 [0 1 2 3 4]",
			3: "5 of 9, 0: 7@0 [3 4]",
			4: "5 of 9, 0: [4]",
			5: "5 of 9, 0: []",
		} {
			if got := committed(t, w, version, at, named("t", id)); got != want {
				t.Errorf("version %d from %d on: %s, want %s", version, at, got, want)
			}
		}
	}
	for _, level := range []int8{0, 1} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.IsolationLevel = level
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp = replica.Latest
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp := ask[*kmsg.ListOffsetsResponse](t, w, 7, req)
		if got, want := resp.Topics[0].Partitions[0].Offset, []int64{9, 5}[level]; got != want {
			t.Errorf("the latest offset at isolation level %d is %d", level, got)
		}
	}

	// A fetch that waits at the last stable offset ends when that moves.
	req := waiting(5, 1, named("t", id))
	req.IsolationLevel = 1
	n.parked(t, w, 18, req)
	h.end(9, 1, record.Commit)
	got := w.fetched(t, req).Topics[0].Partitions[0]
	if list := offsets(t, got.RecordBatches); len(list) == 0 || list[0] != 5 || len(got.AbortedTransactions) != 1 ||
		got.AbortedTransactions[0].ProducerID != 7 || got.AbortedTransactions[0].FirstOffset != 6 {
		t.Errorf("after the commit: %v, %+v", list, got.AbortedTransactions)
	}
	if got := committed(t, w, 18, 5, named("t", id)); got != "10 of 10, 0: 7@6 [5 6 7 8 9]" {
		t.Error(got)
	}
}
