package protocol

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func TestFetchWriterWritesWhatKmsgWrites(t *testing.T) {
	var w FetchWriter // reused, as handlers do
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Int16Range(4, 18).Draw(t, "version")
		want := kmsg.NewPtrFetchResponse()
		want.Version, want.ThrottleMillis = version, rapid.Int32().Draw(t, "throttle")
		var lent [][]byte
		want.ErrorCode, want.SessionID = rapid.Int16().Draw(t, "code"), rapid.Int32().Draw(t, "session")
		topics := rapid.IntRange(0, 3).Draw(t, "topics")
		w.Begin(version, want.ThrottleMillis, want.ErrorCode, want.SessionID, topics)
		for range topics {
			topic := kmsg.FetchResponseTopic{Topic: rapid.String().Draw(t, "name"), TopicID: [16]byte{rapid.Byte().Draw(t, "id")}}
			n := rapid.IntRange(0, 3).Draw(t, "partitions")
			w.Topic(topic.Topic, topic.TopicID, n)
			for range n {
				p := drawFetchResult(t, version)
				k := kmsgFetchResult(p)
				if loan := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "lent"); len(loan) > 0 {
					lent = append(lent, loan)
					p.Lent, k.RecordBatches = len(loan), append(loan, k.RecordBatches...)
				}
				w.Partition(&p)
				topic.Partitions = append(topic.Partitions, k)
			}
			want.Topics = append(want.Topics, topic)
		}
		var endpoints []NodeEndpoint
		if version >= 16 {
			endpoints = drawEndpoints(t)
		}
		for _, e := range endpoints {
			want.Brokers = append(want.Brokers, kmsg.FetchResponseBroker{NodeID: e.ID, Host: e.Host, Port: e.Port, Rack: nullable(e.Rack)})
		}
		parts := w.End(endpoints)
		if len(w.Lent()) != len(lent) {
			t.Fatalf("%d places for %d loans", len(w.Lent()), len(lent))
		}
		var got []byte
		for at, i := 0, 0; i <= len(lent); i++ {
			before := len(parts)
			if i < len(lent) {
				before = w.Lent()[i]
			}
			got, at = append(got, bytes.Join(parts[at:before], nil)...), before
			if i < len(lent) {
				got = append(got, lent[i]...)
			}
		}
		if !bytes.Equal(got, want.AppendTo(nil)) {
			t.Fatalf("version %d:\n got %x\nwant %x", version, got, want.AppendTo(nil))
		}
		if w.Size() != len(got) {
			t.Fatalf("size %d, written %d", w.Size(), len(got))
		}
	})
}

func drawFetchResult(t *rapid.T, version int16) FetchPartitionResult {
	p := FetchPartitionResult{Index: rapid.Int32().Draw(t, "index"), Code: rapid.Int16().Draw(t, "code"),
		HighWatermark: rapid.Int64().Draw(t, "hw"), LastStable: rapid.Int64().Draw(t, "lso"), LogStart: rapid.Int64().Draw(t, "start"),
		PreferredReplica: rapid.Int32().Draw(t, "preferred"),
		Records:          rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 200), 0, 4).Draw(t, "records")}
	switch rapid.IntRange(0, 2).Draw(t, "aborted") {
	case 1:
		p.Aborted = []AbortedTransaction{}
	case 2:
		p.Aborted = []AbortedTransaction{{1, 2}, {rapid.Int64().Draw(t, "pid"), 4}}
	}
	if version >= 12 {
		p.Leader = drawLeader(t)
		if rapid.Bool().Draw(t, "diverges") {
			p.Diverging = &Diverging{rapid.Int32().Draw(t, "epoch"), rapid.Int64().Draw(t, "end")}
		}
	}
	return p
}

func kmsgFetchResult(p FetchPartitionResult) kmsg.FetchResponseTopicPartition {
	k := kmsg.NewFetchResponseTopicPartition()
	k.Partition, k.ErrorCode, k.HighWatermark, k.LastStableOffset, k.LogStartOffset = p.Index, p.Code, p.HighWatermark, p.LastStable,
		p.LogStart
	k.PreferredReadReplica = p.PreferredReplica
	k.RecordBatches = append([]byte{}, bytes.Join(p.Records, nil)...)
	if p.Aborted != nil {
		k.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	for _, a := range p.Aborted {
		k.AbortedTransactions = append(k.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a.ProducerID,
			FirstOffset: a.FirstOffset})
	}
	if p.Leader != nil {
		k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = p.Leader.ID, p.Leader.Epoch
	}
	if p.Diverging != nil {
		k.DivergingEpoch.Epoch, k.DivergingEpoch.EndOffset = p.Diverging.Epoch, p.Diverging.EndOffset
	}
	return k
}

func TestFetchWriterCopiesNoRecords(t *testing.T) {
	var w FetchWriter
	batch := bytes.Repeat([]byte{7}, 1000)
	w.Begin(18, 0, 0, 0, 1)
	w.Topic("", [16]byte{1}, 1)
	w.Partition(&FetchPartitionResult{Records: [][]byte{batch, batch[:10]}})
	parts := w.End(nil)
	if len(parts) != 4 || &parts[1][0] != &batch[0] || &parts[2][0] != &batch[0] {
		t.Fatalf("%d parts, or records were copied", len(parts))
	}
	w.Reset()
	if parts[1] != nil {
		t.Fatal("an empty writer pins records")
	}
}

// A writer waits in a pool, or with a fetch that waits for records: it does not keep the memory of
// a large answer.
func TestAFetchWriterKeepsLittle(t *testing.T) {
	var w FetchWriter
	const partitions = 2000
	w.Begin(12, 0, 0, 0, 1)
	w.Topic("t", [16]byte{}, partitions)
	for i := range int32(partitions) {
		w.Partition(&FetchPartitionResult{Index: i, Records: [][]byte{{1}, {2}}})
	}
	w.End(nil)
	w.Reset()
	if cap(w.dst) > maxKeptAnswer || cap(w.records) > maxKeptPieces || cap(w.parts) > maxKeptPieces {
		t.Errorf("kept: %d bytes, %d and %d pieces", cap(w.dst), cap(w.records), cap(w.parts))
	}
}

func TestShareFetchWriterWritesWhatKmsgWrites(t *testing.T) {
	var w ShareFetchWriter
	rapid.Check(t, func(t *rapid.T) {
		want := kmsg.NewPtrShareFetchResponse()
		want.Version = rapid.Int16Range(1, 2).Draw(t, "version")
		want.ThrottleMillis, want.ErrorCode = rapid.Int32().Draw(t, "throttle"), rapid.Int16().Draw(t, "code")
		want.AcquisitionLockTimeoutMillis = rapid.Int32().Draw(t, "lock")
		topics := rapid.IntRange(0, 3).Draw(t, "topics")
		w.Begin(want.ThrottleMillis, want.ErrorCode, want.AcquisitionLockTimeoutMillis, topics)
		for range topics {
			topic := kmsg.ShareFetchResponseTopic{TopicID: [16]byte{rapid.Byte().Draw(t, "id")}}
			n := rapid.IntRange(0, 3).Draw(t, "partitions")
			w.Topic(topic.TopicID, n)
			for range n {
				p := ShareFetchResult{Index: rapid.Int32().Draw(t, "index"), Code: rapid.Int16().Draw(t, "code"),
					AckCode: rapid.Int16().Draw(t, "ack"), Leader: drawLeader(t),
					Records: rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 200), 0, 4).Draw(t, "records")}
				k := kmsg.NewShareFetchResponseTopicPartition()
				k.Partition, k.ErrorCode, k.AcknowledgeErrorCode = p.Index, p.Code, p.AckCode
				if k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = -1, -1; p.Leader != nil {
					k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = p.Leader.ID, p.Leader.Epoch
				}
				k.Records = bytes.Join(p.Records, nil) // never nil: Kafka's clients refuse that
				for range rapid.IntRange(0, 3).Draw(t, "ranges") {
					a := AcquiredRange{rapid.Int64().Draw(t, "first"), rapid.Int64().Draw(t, "last"), rapid.Int16().Draw(t, "count")}
					p.Acquired = append(p.Acquired, a)
					k.AcquiredRecords = append(k.AcquiredRecords, kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{FirstOffset: a.First,
						LastOffset: a.Last, DeliveryCount: a.Count})
				}
				w.Partition(&p)
				topic.Partitions = append(topic.Partitions, k)
			}
			want.Topics = append(want.Topics, topic)
		}
		endpoints := drawEndpoints(t)
		for _, e := range endpoints {
			want.NodeEndpoints = append(want.NodeEndpoints, kmsg.ShareFetchResponseNodeEndpoint{NodeID: e.ID, Host: e.Host, Port: e.Port,
				Rack: nullable(e.Rack)})
		}
		if got := bytes.Join(w.End(endpoints), nil); !bytes.Equal(got, want.AppendTo(nil)) {
			t.Fatalf("\n got %x\nwant %x", got, want.AppendTo(nil))
		}
	})
}
