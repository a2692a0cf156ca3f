package record

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// consumer is a franz-go consumer of stored bytes.
type consumer struct{ d kgo.Decompressor }

// read returns the records that it receives, and the offset at which it continues.
func (c consumer) read(t testing.TB, p []byte, from int64) (recs []Record, next int64) {
	t.Helper()
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.RecordBatches = p
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: from, KeepControlRecords: true}, &rp, c.d, nil)
	if fp.Err != nil {
		t.Fatalf("a consumer fails: %v", fp.Err)
	}
	for _, r := range fp.Records {
		x := Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
		var headers []Header
		for _, h := range r.Headers {
			headers = append(headers, Header{Key: []byte(h.Key), Value: h.Value})
		}
		x.Headers = HeadersOf(headers...)
		recs = append(recs, x)
	}
	return recs, next
}

// A rewritten batch keeps its properties for every reader.
func TestRewriteKeepsAllButTheRecords(t *testing.T) {
	c := consumer{kgo.DefaultDecompressor()}
	rapid.Check(t, func(rt *rapid.T) {
		recs := drawRecords(rt)
		for i := range recs {
			recs[i].Timestamp %= 1 << 42 // the range of time.Time in nanoseconds
		}
		codec := rapid.SampledFrom(allCodecs).Draw(rt, "codec")
		b, err := recode(compression(t, codec), foreignBatch(t, None, recs, func(k *kmsg.RecordBatch) {
			k.FirstOffset, k.PartitionLeaderEpoch = 1000, 7
			k.ProducerID, k.ProducerEpoch, k.FirstSequence = 42, 3, 2147483640
			k.LastOffsetDelta += 5 // compacted before
			k.Attributes |= int16(rapid.SampledFrom([]int{0, attrLogAppendTime, attrTransactional}).Draw(rt, "attributes"))
		}))
		if err != nil {
			rt.Fatal(err)
		}
		b.seal()
		all, before := collect(t, b), bytes.Clone(b)
		stays := rapid.SliceOfN(rapid.Bool(), len(all), len(all)).Draw(rt, "stays")
		stays[rapid.IntRange(0, len(all)-1).Draw(rt, "one stays")] = true
		horizon := rapid.SampledFrom([]int64{NoHorizon, 0, 1_800_000_000_000}).Draw(rt, "horizon")

		n, err := b.Rewrite(Limits{}, horizon, func(i int32) bool { return stays[i] })
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(b, before) {
			rt.Fatal("the old batch was changed")
		}
		if got, rest, err := Next(n); err != nil || len(rest) > 0 || got.CheckCRC() != nil {
			rt.Fatalf("no whole batch: %v", err)
		}
		var want []Record
		latest := int64(-1)
		for i, r := range all {
			if stays[i] {
				want, latest = append(want, r), max(latest, r.Timestamp)
			}
		}
		if got := collect(t, n); !reflect.DeepEqual(want, got) {
			rt.Fatalf("records: %s", cmp.Diff(want, got, inside))
		}
		theirs, next := c.read(t, n, 0)
		if !reflect.DeepEqual(want, theirs) || next != n.LastOffset()+1 {
			rt.Fatalf("a consumer continues at %d and gets: %s", next, cmp.Diff(want, theirs))
		}
		if b.LogAppendTime() {
			latest = b.MaxTimestamp()
		}
		h, has := n.DeleteHorizon()
		if has != (horizon != NoHorizon) || has && h != horizon || n.MaxTimestamp() != latest || int(n.Records()) != len(want) {
			rt.Fatalf("horizon %d %v, max timestamp %d (want %d), %d records", h, has, n.MaxTimestamp(), latest, n.Records())
		}
		same(rt, b, n)
		if n.Codec() != codec {
			rt.Fatalf("codec %s became %s", codec, n.Codec())
		}
		// A second rewrite keeps the horizon.
		again, err := n.Rewrite(Limits{}, NoHorizon, func(i int32) bool { return i == 0 })
		if err != nil {
			rt.Fatal(err)
		}
		if h2, has2 := again.DeleteHorizon(); has2 != has || has && h2 != h {
			rt.Fatalf("horizon %d became %d", h, h2)
		}
		if got := collect(t, again); !reflect.DeepEqual(want[:1], got) {
			rt.Fatalf("records, written twice: %s", cmp.Diff(want[:1], got))
		}
	})
}

// same checks the fields that neither Rewrite nor Empty may change.
func same(t interface{ Fatalf(string, ...any) }, a, b Batch) {
	type kept struct {
		base, last, pid    int64
		leader, seq, until int32
		epoch              int16
		bits               int16
	}
	of := func(b Batch) kept {
		return kept{b.BaseOffset(), b.LastOffset(), b.ProducerID(), b.LeaderEpoch(), b.BaseSequence(), b.LastSequence(), b.ProducerEpoch(),
			b.Attributes() &^ (attrCodec | attrHorizon)}
	}
	if of(a) != of(b) {
		t.Fatalf("%+v became %+v", of(a), of(b))
	}
}

func TestEmptyKeepsTheProducerState(t *testing.T) {
	c := consumer{kgo.DefaultDecompressor()}
	for _, codec := range allCodecs {
		b := stored(t, codec, sample(), func(k *kmsg.RecordBatch) {
			k.ProducerID, k.ProducerEpoch, k.FirstSequence, k.PartitionLeaderEpoch = 42, 3, 10, 9
			k.Attributes |= attrHorizon | attrTransactional
		})
		e := b.Empty()
		if got, rest, err := Next(e); err != nil || len(rest) > 0 || got.CheckCRC() != nil || len(got) != HeaderSize {
			t.Fatalf("%s: no whole batch of a header: %d bytes, %v", codec, len(e), err)
		}
		same(t, b, e)
		if _, has := e.DeleteHorizon(); has || e.Records() != 0 || e.Codec() != None || e.MaxTimestamp() != b.MaxTimestamp() {
			t.Errorf("%s: attributes %#x, %d records, max timestamp %d", codec, e.Attributes(), e.Records(), e.MaxTimestamp())
		}
		b.SetBaseOffset(e.LastOffset() + 1)
		if recs, next := c.read(t, append(bytes.Clone(e), b...), e.BaseOffset()); next != b.LastOffset()+1 || len(recs) != len(sample()) {
			t.Errorf("%s: a consumer gets %d records and continues at %d", codec, len(recs), next)
		}
		if recs, next := c.read(t, e, e.BaseOffset()); next != e.LastOffset()+1 || len(recs) > 0 {
			t.Errorf("%s: a consumer gets %d records and continues at %d", codec, len(recs), next)
		}
		if got := collect(t, e); len(got) > 0 {
			t.Errorf("%s: %d records", codec, len(got))
		}
		if _, _, found, err := e.FindTimestamp(0, 0, Limits{}); found || err != nil {
			t.Errorf("%s: a record was found: %v", codec, err)
		}
	}
}

func TestRewriteRejectsUnreadableBatches(t *testing.T) {
	b := stored(t, Gzip, sample(), nil)
	if _, err := b.Rewrite(Limits{}, NoHorizon, func(int32) bool { return false }); !isKind(err, EmptySet) {
		t.Errorf("no record is kept: %v", err)
	}
	if _, err := b.Rewrite(Limits{Bytes: 10}, NoHorizon, func(int32) bool { return true }); !isKind(err, TooLarge) {
		t.Errorf("more than may be inflated: %v", err)
	}
	b[HeaderSize+20] ^= 0xff
	if _, err := b.Rewrite(Limits{}, NoHorizon, func(int32) bool { return true }); err == nil {
		t.Error("a damaged stream was rewritten")
	}
}

func isKind(err error, k Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == k
}

// For any bytes, a rewritten batch can be read and holds the records that were kept.
func FuzzRewrite(f *testing.F) {
	for _, codec := range allCodecs {
		f.Add(foreignBatch(f, codec, sample(), nil), uint64(5), int64(1000))
	}
	f.Fuzz(func(t *testing.T, p []byte, mask uint64, horizon int64) {
		b, _, err := Next(p)
		if err != nil {
			return
		}
		n, err := b.Rewrite(Limits{Bytes: 1 << 20}, max(horizon, NoHorizon), func(i int32) bool { return mask>>(i%64)&1 == 1 })
		if err != nil {
			return
		}
		var want, got []int64
		if err := b.Each(Limits{Bytes: 1 << 20}, func(r Record) error {
			want = append(want, r.Offset, r.Timestamp, int64(len(r.Value)))
			return nil
		}); err != nil {
			t.Fatalf("it was rewritten, but can't be read: %v", err)
		}
		var left []int64
		for i := 0; i < len(want); i += 3 {
			if mask>>(i/3%64)&1 == 1 {
				left = append(left, want[i:i+3]...)
			}
		}
		must.OK(t, n.Each(Limits{Bytes: 1 << 20}, func(r Record) error {
			got = append(got, r.Offset, r.Timestamp, int64(len(r.Value)))
			return nil
		}))
		if n.CheckCRC() != nil || !cmp.Equal(left, got) {
			t.Fatalf("%v became %v", left, got)
		}
	})
}
