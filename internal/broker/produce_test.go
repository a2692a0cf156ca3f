package broker

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
)

// batchOf builds a batch with the given values, all with timestamp ts.
func batchOf(t testing.TB, o record.BatchOptions, ts int64, values ...string) []byte {
	t.Helper()
	w := record.NewBuilder(o)
	for _, v := range values {
		w.Append(ts, nil, []byte(v), nil)
	}
	b, err := w.Build()
	must(t, err)
	return b
}

func plain(t testing.TB, values ...string) []byte {
	t.Helper()
	return batchOf(t, record.BatchOptions{}, time.Now().UnixMilli(), values...)
}

// produceRequest is a request for partition 0 of one topic.
func produceRequest(topic string, id [16]byte, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 120_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// produced sends one batch and returns the answer for it.
func produced(t testing.TB, w *wire, version int16, req *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	resp := ask[*kmsg.ProduceResponse](t, w, version, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("answer for %+v", resp.Topics)
	}
	if version < 13 && resp.Topics[0].Topic != req.Topics[0].Topic || version >= 13 && resp.Topics[0].TopicID != req.Topics[0].TopicID {
		t.Fatalf("answer for topic %q %x", resp.Topics[0].Topic, resp.Topics[0].TopicID)
	}
	return resp.Topics[0].Partitions[0]
}

func TestEveryVersionStoresWhatItAcknowledges(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	next := int64(0)
	for version := int16(3); version <= 13; version++ {
		for _, acks := range []int16{-1, 1} {
			p := produced(t, w, version, produceRequest("t", id, acks, plain(t, "a", "b")))
			if p.ErrorCode != 0 || p.BaseOffset != next || p.LogAppendTime != -1 || version >= 5 && p.LogStartOffset != 0 {
				t.Fatalf("version %d acks %d: %+v, want offset %d", version, acks, p, next)
			}
			next += 2
			if got := n.highWatermark(t, id); got < next {
				t.Fatalf("version %d acks %d was acknowledged at high watermark %d, want %d", version, acks, got, next)
			}
		}
	}
}

func (n *node) highWatermark(t testing.TB, id [16]byte) int64 {
	t.Helper()
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	return p.Ends().HighWatermark
}

func TestAcksNoneIsStoredInOrderAndHasNoAnswer(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	for range 3 {
		req := produceRequest("t", id, 0, plain(t, "a"))
		req.SetVersion(9)
		must(t, w.send(req))
	}
	if p := produced(t, w, 9, produceRequest("t", id, -1, plain(t, "b"))); p.ErrorCode != 0 || p.BaseOffset != 3 {
		t.Fatalf("after three with acks=0: %+v", p)
	}
}

func TestAcksNoneWithAnErrorClosesTheConnection(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	w := n.dial(t)
	good := produceRequest("t", [16]byte{}, 1, plain(t, "a"))
	good.SetVersion(9)
	must(t, w.send(good))
	bad := produceRequest("missing", [16]byte{}, 0, plain(t, "a"))
	bad.SetVersion(9)
	first := w.correlation
	must(t, w.send(bad))
	w.correlation = first
	if resp, err := w.receive(good); err != nil || resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("the request before it is answered: %v %v", resp, err)
	}
	if _, err := w.body(); !errors.Is(err, io.EOF) {
		t.Fatalf("the connection ends with %v, want EOF", err)
	}
}

func TestProduceIsRefusedWithKafkasErrors(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.topic(t, "small", 1, "max.message.bytes", "100")
	n.topic(t, "segments", 1, "max.message.bytes", "3000000", "segment.bytes", "1048576")
	n.topic(t, "strict", 1, "message.timestamp.before.max.ms", "1000")
	n.topic(t, "nothing", 1, "max.message.bytes", "0")
	n.topic(t, "now", 1, "message.timestamp.before.max.ms", "0")
	corrupt := plain(t, "a")
	corrupt[len(corrupt)-1] ^= 1
	two := append(plain(t, "a"), plain(t, "b")...)
	old := batchOf(t, record.BatchOptions{}, 1, "a", "b")
	zstd := batchOf(t, record.BatchOptions{Compression: compressed(t, record.Zstd)}, time.Now().UnixMilli(), "a")
	ours := batchOf(t, record.BatchOptions{Producer: &record.Producer{ID: record.FirstBrokerProducer}}, time.Now().UnixMilli(), "a")
	for _, c := range []struct {
		name     string
		topic    string
		id       [16]byte
		version  int16
		acks     int16
		records  []byte
		change   func(*kmsg.ProduceRequest)
		want     *kerr.Error
		records2 int // error records
		message  string
	}{
		{name: "no such topic", topic: "x", version: 12, want: kerr.UnknownTopicOrPartition, message: `"x"`},
		{name: "no such id", id: [16]byte{9}, version: 13, want: kerr.UnknownTopicID},
		{name: "no such partition", topic: "t", version: 12, want: kerr.UnknownTopicOrPartition,
			change: func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = 1 }},
		{name: "negative partition", topic: "t", version: 12, want: kerr.UnknownTopicOrPartition,
			change: func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = -1 }},
		{name: "acks", topic: "t", version: 12, acks: 2, want: kerr.InvalidRequiredAcks, message: "0, 1 or -1"},
		{name: "no records", topic: "t", version: 12, records: []byte{}, want: kerr.InvalidRecord},
		{name: "bad CRC", id: id, version: 13, records: corrupt, want: kerr.CorruptMessage},
		{name: "cut short", topic: "t", version: 12, records: corrupt[:30], want: kerr.InvalidRecord},
		{name: "two batches", topic: "t", version: 12, records: two, want: kerr.InvalidRecord, message: "exactly one"},
		{name: "too large", topic: "small", version: 12, records: plain(t, strings.Repeat("x", 200)), want: kerr.MessageTooLarge},
		{name: "too old", topic: "strict", version: 12, records: old, want: kerr.InvalidTimestamp, records2: 2},
		{name: "larger than a segment", topic: "segments", version: 12, records: plain(t, strings.Repeat("x", 1048576)),
			want: kerr.RecordListTooLarge},
		{name: "no size allowed", topic: "nothing", version: 12, want: kerr.MessageTooLarge},
		{name: "no difference allowed", topic: "now", version: 12, records: old, want: kerr.InvalidTimestamp, records2: 2},
		{name: "zstd before version 7", topic: "t", version: 6, records: zstd, want: kerr.UnsupportedCompressionType},
		{name: "a producer id of the brokers", topic: "t", version: 12, records: ours, want: kerr.InvalidRecord, message: "InitProducerId"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.records == nil {
				c.records = plain(t, "a")
			}
			if c.acks == 0 {
				c.acks = -1
			}
			req := produceRequest(c.topic, c.id, c.acks, c.records)
			if c.change != nil {
				c.change(req)
			}
			p := produced(t, n.dial(t), c.version, req)
			if p.ErrorCode != c.want.Code || p.BaseOffset != -1 || p.LogAppendTime != -1 {
				t.Fatalf("%v at %d, want %v", kerr.ErrorForCode(p.ErrorCode), p.BaseOffset, c.want)
			}
			if c.version >= 8 && (p.ErrorMessage == nil || !strings.Contains(*p.ErrorMessage, c.message)) {
				t.Errorf("message %v, want one with %q", p.ErrorMessage, c.message)
			}
			if len(p.ErrorRecords) != c.records2 {
				t.Errorf("%d error records, want %d: %+v", len(p.ErrorRecords), c.records2, p.ErrorRecords)
			}
		})
	}
	if got := n.highWatermark(t, id); got != 0 {
		t.Errorf("refused records were stored: high watermark %d", got)
	}
}

func compressed(t testing.TB, c record.Codec) record.Compression {
	t.Helper()
	how, err := record.ParseCompression(c.String(), record.DefaultLevels())
	must(t, err)
	return how
}

func TestOnePartitionsErrorIsItsOwn(t *testing.T) {
	n := newNode(t)
	n.topic(t, "a", 2)
	n.topic(t, "b", 1)
	req := produceRequest("a", [16]byte{}, -1, plain(t, "1"))
	for _, index := range []int32{7, 1} {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = index, plain(t, "2", "3")
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	req.Topics = append(req.Topics, produceRequest("x", [16]byte{}, -1, plain(t, "4")).Topics[0],
		produceRequest("b", [16]byte{}, -1, plain(t, "5")).Topics[0])
	resp := ask[*kmsg.ProduceResponse](t, n.dial(t), 12, req)
	got := ""
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			got += fmt.Sprintf("%s-%d %d; ", topic.Topic, p.Partition, p.ErrorCode)
		}
	}
	if want := "a-0 0; a-7 3; a-1 0; x-0 3; b-0 0; "; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

func TestADuplicateIsAnsweredWithItsFirstOffsets(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	idempotent := func(seq int32, values ...string) []byte {
		return batchOf(t, record.BatchOptions{Producer: &record.Producer{ID: 7, Epoch: 0, Sequence: seq}}, time.Now().UnixMilli(),
			values...)
	}
	first := idempotent(0, "a", "b")
	for i, c := range []struct {
		records []byte
		offset  int64
		want    *kerr.Error
	}{
		{first, 0, nil},
		{idempotent(2, "c"), 2, nil},
		{first, 0, nil},
		{idempotent(4, "e"), -1, kerr.OutOfOrderSequenceNumber},
		{idempotent(3, "d"), 3, nil},
	} {
		p := produced(t, w, 13, produceRequest("", id, -1, c.records))
		if !errors.Is(kerr.ErrorForCode(p.ErrorCode), orNil(c.want)) || p.BaseOffset != c.offset {
			t.Fatalf("batch %d: %v at %d, want %v at %d", i, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset, c.want, c.offset)
		}
	}
	if got := n.highWatermark(t, id); got != 4 {
		t.Errorf("high watermark %d, want 4", got)
	}
}

func orNil(e *kerr.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func TestLogAppendTimeIsAnswered(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().UnixMilli()
	p := produced(t, n.dial(t), 9, produceRequest("t", [16]byte{}, 1, batchOf(t, record.BatchOptions{}, 1, "a")))
	if p.ErrorCode != 0 || p.LogAppendTime < before || p.LogAppendTime > time.Now().UnixMilli() {
		t.Fatalf("%+v, sent at %d", p, before)
	}
}

// A limit of 2^63-1 ms, Kafka's default for the past, means no limit.
func TestTimestampsWithoutLimits(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1, "message.timestamp.after.max.ms", "9223372036854775807")
	for _, ts := range []int64{0, -1, math.MaxInt64} {
		if p := produced(t, n.dial(t), 9, produceRequest("t", [16]byte{}, 1,
			batchOf(t, record.BatchOptions{}, ts, "a"))); p.ErrorCode != 0 {
			t.Errorf("timestamp %d: %+v", ts, p)
		}
	}
}

func TestAMalformedProduceClosesTheConnection(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	req := produceRequest("t", [16]byte{}, -1, plain(t, "a"))
	req.SetVersion(9)
	w.correlation++
	frame := w.format.AppendRequest(nil, req, w.correlation)
	frame = frame[:len(frame)-40]
	frame[2], frame[3] = byte((len(frame)-4)>>8), byte(len(frame)-4)
	_, err := w.Write(frame)
	must(t, err)
	if _, err := w.body(); !errors.Is(err, io.EOF) {
		t.Fatalf("the connection ends with %v, want EOF", err)
	}
}
