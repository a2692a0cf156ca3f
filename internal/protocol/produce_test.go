package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// sameProduce compares a view with what kmsg reads from the same bytes.
func sameProduce(v *ProduceView, req *kmsg.ProduceRequest) string {
	var got kmsg.ProduceRequest
	got.Default()
	got.Version, got.Acks, got.TimeoutMillis = v.Version, v.Acks, v.TimeoutMillis
	if v.TransactionalID != nil {
		got.TransactionID = kmsg.StringPtr(string(v.TransactionalID))
	}
	n := 0
	for _, t := range v.Topics {
		topic := kmsg.ProduceRequestTopic{Topic: string(t.Name), TopicID: t.ID}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p.Index, Records: p.Records})
			n++
		}
		got.Topics = append(got.Topics, topic)
	}
	if n != v.Partitions() {
		return "the count of partitions differs from theirs"
	}
	want := *req
	want.UnknownTags = kmsg.Tags{}
	want.Topics = nil
	for _, t := range req.Topics {
		t.UnknownTags = kmsg.Tags{}
		var parts []kmsg.ProduceRequestTopicPartition
		for _, p := range t.Partitions {
			p.UnknownTags = kmsg.Tags{}
			parts = append(parts, p)
		}
		t.Partitions = parts
		want.Topics = append(want.Topics, t)
	}
	return cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }))
}

func TestProduceViewReadsWhatKmsgReads(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var v ProduceView
	for version := int16(3); version <= 13; version++ {
		for range 100 {
			body := randomRequest(rnd, KeyProduce, version).AppendTo(nil)
			var req kmsg.ProduceRequest
			req.Version = version
			must.OK(t, req.ReadFrom(body))
			if err := v.Parse(version, body); err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
			if diff := sameProduce(&v, &req); diff != "" {
				t.Fatalf("version %d: %s", version, diff)
			}
		}
	}
}

func TestProduceViewRefusesOtherVersions(t *testing.T) {
	var v ProduceView
	for _, version := range []int16{-1, 0, 2, 14} {
		if err := v.Parse(version, make([]byte, 100)); !errors.Is(err, ErrUnsupported) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestProduceViewAllocatesNothingOnReuse(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 13
	req.Topics = make([]kmsg.ProduceRequestTopic, 20)
	for i := range req.Topics {
		req.Topics[i].Partitions = make([]kmsg.ProduceRequestTopicPartition, 50)
		for j := range req.Topics[i].Partitions {
			req.Topics[i].Partitions[j].Records = make([]byte, 70)
		}
	}
	body := req.AppendTo(nil)
	var v ProduceView
	if n := testing.AllocsPerRun(10, func() {
		must.OK(t, v.Parse(13, body))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	v.Reset()
	if full := v.flat[:cap(v.flat)]; full[0].Records != nil {
		t.Error("an empty view pins the bytes of the last request")
	}
}

func FuzzProduceView(f *testing.F) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for version := int16(3); version <= 13; version++ {
		f.Add(version, randomRequest(rnd, KeyProduce, version).AppendTo(nil))
	}
	f.Add(int16(9), []byte{0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x07})
	table := fullTable(f)
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 3 || version > 13 || len(body) > 1<<16 {
			return
		}
		var v ProduceView
		err := v.Parse(version, body)
		if guard := table.Check(KeyProduce, version, body); (err == nil) != (guard == nil) {
			t.Fatalf("view %v, guard %v", err, guard)
		}
		if err != nil {
			return
		}
		var req kmsg.ProduceRequest
		req.Version = version
		if err := req.ReadFrom(body); err != nil {
			t.Fatalf("kmsg refuses what the view reads: %v", err)
		}
		if diff := sameProduce(&v, &req); diff != "" {
			t.Fatal(diff)
		}
	})
}

func drawLeader(t *rapid.T) *Leader {
	if rapid.Bool().Draw(t, "noLeader") {
		return nil
	}
	return &Leader{rapid.Int32().Draw(t, "leader"), rapid.Int32().Draw(t, "epoch")}
}

func drawEndpoints(t *rapid.T) []NodeEndpoint {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) NodeEndpoint {
		return NodeEndpoint{rapid.Int32().Draw(t, "id"), rapid.String().Draw(t, "host"), rapid.Int32().Draw(t, "port"),
			rapid.String().Draw(t, "rack")}
	}), 0, 3).Draw(t, "endpoints")
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func TestProduceWriterWritesWhatKmsgWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Int16Range(3, 13).Draw(t, "version")
		want := kmsg.NewPtrProduceResponse()
		want.Version, want.ThrottleMillis = version, rapid.Int32().Draw(t, "throttle")
		topics := rapid.IntRange(0, 3).Draw(t, "topics")
		w := NewProduceWriter(nil, version, topics)
		for range topics {
			topic := kmsg.ProduceResponseTopic{Topic: rapid.String().Draw(t, "name"), TopicID: [16]byte{rapid.Byte().Draw(t, "id")}}
			n := rapid.IntRange(0, 3).Draw(t, "partitions")
			w.Topic([]byte(topic.Topic), topic.TopicID, n)
			for range n {
				p := drawProduceResult(t, version)
				w.Partition(&p)
				topic.Partitions = append(topic.Partitions, kmsgProduceResult(p))
			}
			want.Topics = append(want.Topics, topic)
		}
		var endpoints []NodeEndpoint
		if version >= 10 {
			endpoints = drawEndpoints(t)
		}
		for _, e := range endpoints {
			want.Brokers = append(want.Brokers, kmsg.ProduceResponseBroker{NodeID: e.ID, Host: e.Host, Port: e.Port,
				Rack: nullable(e.Rack)})
		}
		if got := w.End(want.ThrottleMillis, endpoints); !bytes.Equal(got, want.AppendTo(nil)) {
			t.Fatalf("version %d:\n got %x\nwant %x", version, got, want.AppendTo(nil))
		}
	})
}

func drawProduceResult(t *rapid.T, version int16) ProducePartitionResult {
	p := ProducePartitionResult{Index: rapid.Int32().Draw(t, "index"), Code: rapid.Int16().Draw(t, "code"),
		BaseOffset: rapid.Int64().Draw(t, "base"), AppendTime: rapid.Int64().Draw(t, "time"), LogStart: rapid.Int64().Draw(t, "start"),
		Message: rapid.String().Draw(t, "message")}
	for range rapid.IntRange(0, 2).Draw(t, "records") {
		p.ErrorRecords = append(p.ErrorRecords, ProduceErrorRecord{rapid.Int32().Draw(t, "record"), rapid.String().Draw(t, "why")})
	}
	if version >= 10 {
		p.Leader = drawLeader(t)
	}
	return p
}

func kmsgProduceResult(p ProducePartitionResult) kmsg.ProduceResponseTopicPartition {
	k := kmsg.NewProduceResponseTopicPartition()
	k.Partition, k.ErrorCode, k.BaseOffset, k.LogAppendTime, k.LogStartOffset = p.Index, p.Code, p.BaseOffset, p.AppendTime, p.LogStart
	k.ErrorMessage = nullable(p.Message)
	for _, r := range p.ErrorRecords {
		k.ErrorRecords = append(k.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: r.Index,
			ErrorMessage: nullable(r.Message)})
	}
	if p.Leader != nil {
		k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = p.Leader.ID, p.Leader.Epoch
	}
	return k
}

func BenchmarkProduceView(b *testing.B) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 13
	req.Topics = []kmsg.ProduceRequestTopic{{Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 330)}}}}
	body := req.AppendTo(nil)
	var v ProduceView
	for b.Loop() {
		must.OK(b, v.Parse(13, body))
	}
}
