package record

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var testNow = time.UnixMilli(1_700_000_000_000)

// mustAccept accepts p and checks the properties of every accepted batch.
func mustAccept(t testing.TB, r *Rules, p []byte) (Accepted, Batch) {
	t.Helper()
	a, err := r.Accept(p, testNow)
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	b, rest, err := Next(a.Bytes)
	if err != nil || len(rest) > 0 {
		t.Fatalf("accepted bytes are not one batch: %v", err)
	}
	if err := b.CheckCRC(); err != nil {
		t.Fatalf("accepted batch: %v", err)
	}
	if a.Batches != 1 || a.Records != int(b.Records()) || a.MaxTimestamp != b.MaxTimestamp() {
		t.Fatalf("Accepted %+v does not describe its batch", a)
	}
	return a, b
}

func TestAcceptKeepsBytes(t *testing.T) {
	for _, codec := range allCodecs {
		p := foreignBatch(t, codec, sample(), nil)
		want := bytes.Clone(p)
		a, b := mustAccept(t, &Rules{}, p)
		if !bytes.Equal(a.Bytes, want) || &a.Bytes[0] != &p[0] {
			t.Errorf("%s: bytes were changed or copied", codec)
		}
		if a.Codec != codec || a.AppendTime != -1 || a.MaxTimestamp != 1_700_000_000_500 {
			t.Errorf("%s: %+v", codec, a)
		}
		if d := cmp.Diff(numbered(0, sample()), collect(t, b), inside); d != "" {
			t.Errorf("%s: %s", codec, d)
		}
	}
}

// Accept tolerates oddities of real clients that Kafka tolerates.
func TestAcceptToleratesOddBatches(t *testing.T) {
	for name, change := range map[string]func(*kmsg.RecordBatch){
		"no producer id, sequence 0": func(b *kmsg.RecordBatch) { b.FirstSequence = 0 },
		"no producer id, epoch 0":    func(b *kmsg.RecordBatch) { b.ProducerEpoch = 0 },
		"producer id 0":              func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 0, 0, 0 },
		"sequence about to wrap": func(b *kmsg.RecordBatch) {
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1, 0, math.MaxInt32
		},
		"a leader epoch": func(b *kmsg.RecordBatch) { b.PartitionLeaderEpoch = 12 },
	} {
		t.Run(name, func(t *testing.T) { mustAccept(t, &Rules{}, foreignBatch(t, None, sample(), change)) })
	}
	mustAccept(t, &Rules{OfBroker: true}, foreignBatch(t, None, sample(), func(b *kmsg.RecordBatch) {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = FirstBrokerProducer, 0, 0
	}))
	t.Run("long varint", func(t *testing.T) {
		mustAccept(t, &Rules{}, foreignRaw(t, None, []byte{0x8e, 0x80, 0x00, 0, 0, 0, 1, 1, 0x80, 0x00}, 1, nil))
	})
}

// The brokers believe their own batches: which dead letters were copied. So a client that may write
// to their topic must not write one of these producer ids.
func TestAcceptRefusesTheProducerIdsOfBrokers(t *testing.T) {
	for id, ours := range map[int64]bool{FirstBrokerProducer - 1: false, FirstBrokerProducer: true, math.MaxInt64: true} {
		b := foreignBatch(t, None, sample(), func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = id, 0, 0 })
		_, err := (&Rules{}).Accept(bytes.Clone(b), time.Now())
		if e, refused := errors.AsType[*Error](err); refused != ours || refused && e.Kind != InvalidRecord {
			t.Errorf("producer id %d of a client: %v", id, err)
		}
		if _, err := (&Rules{OfBroker: true}).Accept(b, time.Now()); err != nil {
			t.Errorf("producer id %d of a broker: %v", id, err)
		}
	}
}

// Accept corrects the max timestamp as Kafka does; readers rely on it.
func TestAcceptCorrectsMaxTimestamp(t *testing.T) {
	for _, codec := range allCodecs {
		for _, claim := range []int64{-1, 0, math.MaxInt64, math.MinInt64} {
			p := foreignBatch(t, codec, sample(), func(b *kmsg.RecordBatch) { b.MaxTimestamp = claim })
			if a, _ := mustAccept(t, &Rules{}, p); a.MaxTimestamp != 1_700_000_000_500 {
				t.Errorf("%s: max timestamp %d became %d", codec, claim, a.MaxTimestamp)
			}
		}
	}
}

func TestAcceptLogAppendTime(t *testing.T) {
	for _, codec := range allCodecs {
		for _, target := range allCodecs {
			r := &Rules{LogAppendTime: true, TimestampAfter: 1, TimestampBefore: 1, Compression: compression(t, target)}
			recs := sample()
			recs[0].Timestamp = -9 // the producer's timestamp is ignored
			a, b := mustAccept(t, r, foreignBatch(t, codec, recs, nil))
			if a.AppendTime != testNow.UnixMilli() || a.MaxTimestamp != a.AppendTime || !b.LogAppendTime() || b.Codec() != target {
				t.Errorf("%s to %s: %+v", codec, target, a)
			}
			_, got := foreignDecode(t, b)
			for _, rec := range got {
				if rec.Timestamp != testNow.UnixMilli() {
					t.Errorf("%s to %s: record has time %d", codec, target, rec.Timestamp)
				}
			}
		}
	}
}

// Re-compression keeps the records, the producer and the timestamps, and another implementation can
// read the result.
func TestAcceptRecompresses(t *testing.T) {
	for _, from := range allCodecs {
		for _, to := range allCodecs {
			p := foreignBatch(t, from, sample(), func(b *kmsg.RecordBatch) {
				b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.MaxTimestamp = 5, 6, 7, 1
			})
			want := bytes.Clone(p)
			a, b := mustAccept(t, &Rules{Compression: compression(t, to)}, p)
			if from != to && !bytes.Equal(p, want) {
				t.Errorf("%s to %s: the input was changed", from, to)
			}
			if from == to && &a.Bytes[0] != &p[0] {
				t.Errorf("%s to %s: was rebuilt", from, to)
			}
			k, recs := foreignDecode(t, b)
			if d := cmp.Diff(numbered(0, sample()), recs, inside); d != "" {
				t.Errorf("%s to %s: %s", from, to, d)
			}
			if k.ProducerID != 5 || k.ProducerEpoch != 6 || k.FirstSequence != 7 || k.Attributes != int16(to) ||
				k.MaxTimestamp != 1_700_000_000_500 || k.FirstTimestamp != 1_700_000_000_000 || a.Codec != from {
				t.Errorf("%s to %s: header %+v", from, to, k)
			}
		}
	}
}

func TestAcceptBoundsSize(t *testing.T) {
	p := foreignBatch(t, None, []Record{{Timestamp: 1, Value: make([]byte, 5000)}}, nil)
	mustAccept(t, &Rules{MaxBatchBytes: len(p)}, p)
	wantKind(t, "one byte too large", &Rules{MaxBatchBytes: len(p) - 1}, p, TooLarge, -1)

	packed := foreignBatch(t, Zstd, []Record{{Timestamp: 1, Value: make([]byte, 5000)}}, nil)
	mustAccept(t, &Rules{MaxBatchBytes: len(p), Compression: compression(t, None)}, packed)
	for _, to := range []Codec{None, Gzip, Snappy, Lz4} {
		small := foreignBatch(t, Zstd, []Record{{Timestamp: 1, Value: bytes.Repeat(noise(2000), 300)}}, nil)
		wantKind(t, "too large as "+to.String(), &Rules{MaxBatchBytes: len(small), Compression: compression(t, to)}, small, TooLarge, -1)
	}
}

// noise returns n bytes that do not compress, the same for each call.
func noise(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// Accept names every wrong record, a timestamp determines the kind of a mixed batch, and the list
// is bounded.
func TestAcceptListsRecords(t *testing.T) {
	recs := make([]Record, 100)
	for i := range recs {
		recs[i] = Record{Timestamp: testNow.UnixMilli(), Key: []byte("k")}
	}
	recs[3].Key, recs[70].Timestamp = nil, 1
	r := &Rules{RequireKeys: true, TimestampBefore: time.Hour}
	_, err := r.Accept(foreignBatch(t, None, recs, nil), testNow)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != InvalidTimestamp || e.Record != 3 || len(e.Records) != 2 || e.Records[0].Index != 3 || e.Records[1].Index != 70 {
		t.Errorf("got %#v", err)
	}
	for i := range recs {
		recs[i].Key, recs[i].Timestamp = nil, testNow.UnixMilli()
	}
	_, err = r.Accept(foreignBatch(t, Lz4, recs, nil), testNow)
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != InvalidRecord || e.Record != 0 || len(e.Records) != MaxFindings {
		t.Errorf("got %#v", err)
	}
}

func TestTimestampLimits(t *testing.T) {
	at := func(d time.Duration) []byte {
		return foreignBatch(t, None, []Record{{Timestamp: testNow.Add(d).UnixMilli()}}, nil)
	}
	hour := &Rules{TimestampBefore: TimestampLimit(time.Hour), TimestampAfter: TimestampLimit(time.Hour)}
	mustAccept(t, hour, at(-time.Hour))
	mustAccept(t, hour, at(time.Hour))
	mustAccept(t, hour, foreignBatch(t, None, []Record{{Timestamp: -1}}, nil))
	wantKind(t, "early", hour, at(-time.Hour-time.Millisecond), InvalidTimestamp, 0)
	wantKind(t, "late", hour, at(time.Hour+time.Millisecond), InvalidTimestamp, 0)
	none := &Rules{TimestampBefore: TimestampLimit(0), TimestampAfter: TimestampLimit(0)}
	mustAccept(t, none, at(0))
	wantKind(t, "late where none is allowed", none, at(time.Millisecond), InvalidTimestamp, 0)
	any := &Rules{TimestampBefore: TimestampLimit(math.MaxInt64), TimestampAfter: TimestampLimit(math.MaxInt64)}
	mustAccept(t, any, foreignBatch(t, None, []Record{{Timestamp: math.MaxInt64}}, nil))
	mustAccept(t, any, foreignBatch(t, None, []Record{{Timestamp: 0}}, nil))
	wantKind(t, "the latest of all", hour, foreignBatch(t, None, []Record{{Timestamp: math.MaxInt64}}, nil), InvalidTimestamp, 0)
}

// The hot path of a broker is a small uncompressed batch.
func TestAcceptDoesNotAllocate(t *testing.T) {
	p := foreignBatch(t, None, []Record{{Timestamp: testNow.UnixMilli(), Key: []byte("key"), Value: make([]byte, 256)}}, nil)
	for name, r := range map[string]*Rules{
		"plain": {MaxBatchBytes: 1 << 20, TimestampAfter: time.Hour, TimestampBefore: time.Hour, RequireKeys: true},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := r.Accept(p, testNow); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	stamp := &Rules{LogAppendTime: true}
	q := bytes.Clone(p)
	if n := testing.AllocsPerRun(100, func() {
		copy(q, p)
		if _, err := stamp.Accept(q, testNow); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("LogAppendTime: %v allocations", n)
	}
}
