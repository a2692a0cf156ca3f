package record

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func drawBytes(t *rapid.T, nullable bool, max int, what string) []byte {
	if nullable && rapid.Bool().Draw(t, what+" is null") {
		return nil
	}
	p := rapid.SliceOfN(rapid.Byte(), 0, max).Draw(t, what)
	return append([]byte{}, bytes.Repeat(p, rapid.SampledFrom([]int{1, 1, 1, 300}).Draw(t, what+" repeats"))...)
}

func drawRecords(t *rapid.T) []Record {
	recs := make([]Record, rapid.IntRange(1, 20).Draw(t, "records"))
	for i := range recs {
		recs[i].Timestamp = rapid.Int64Range(-1, 1<<62).Draw(t, "timestamp")
		recs[i].Key, recs[i].Value = drawBytes(t, true, 50, "key"), drawBytes(t, true, 500, "value")
		var headers []Header
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			headers = append(headers, Header{Key: drawBytes(t, false, 10, "header key"), Value: drawBytes(t, true, 10, "header")})
		}
		recs[i].Headers = HeadersOf(headers...)
	}
	return recs
}

// For any batch, codec and re-compression, this package and franz-go read the same records back.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		recs := drawRecords(rt)
		from, to := rapid.SampledFrom(allCodecs).Draw(rt, "from"), rapid.SampledFrom(allCodecs).Draw(rt, "to")
		w := NewBuilder(BatchOptions{Compression: compression(t, from)})
		for _, r := range recs {
			w.Append(r.Timestamp, r.Key, r.Value, slices.Collect(r.Headers.All()))
		}
		b, err := w.Build()
		if err != nil {
			rt.Fatal(err)
		}
		_, b = mustAccept(t, &Rules{Compression: compression(t, to)}, b)
		b.SetBaseOffset(1 << 33)
		want := numbered(1<<33, recs)
		if got := collect(t, b); !reflect.DeepEqual(want, got) {
			rt.Fatalf("%s to %s: %s", from, to, cmp.Diff(want, got, inside))
		}
		_, foreign := foreignDecode(t, b)
		if !reflect.DeepEqual(want, foreign) {
			rt.Fatalf("%s to %s, read by franz-go: %s", from, to, cmp.Diff(want, foreign, inside))
		}
	})
}

// Accept accepts the batches of franz-go unchanged.
func TestForeignRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		recs := drawRecords(rt)
		codec := rapid.SampledFrom(allCodecs).Draw(rt, "codec")
		p := foreignBatch(t, codec, recs, nil)
		want := bytes.Clone(p)
		a, b := mustAccept(t, &Rules{}, p)
		if !bytes.Equal(a.Bytes, want) {
			rt.Fatal("the bytes were changed")
		}
		if want, got := numbered(0, recs), collect(t, b); !reflect.DeepEqual(want, got) {
			rt.Fatalf("%s: %s", codec, cmp.Diff(want, got, inside))
		}
	})
}

func FuzzNext(f *testing.F) {
	for _, c := range allCodecs {
		f.Add(foreignBatch(f, c, sample(), nil))
	}
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, p []byte) {
		b, rest, err := Next(p)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok && !errors.Is(err, ErrShort) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if len(b)+len(rest) != len(p) || len(b) < HeaderSize || b.Magic() != 2 {
			t.Fatalf("%d bytes became a batch of %d and a rest of %d", len(p), len(b), len(rest))
		}
		var k kmsg.RecordBatch
		if err := k.ReadFrom(b); err != nil || k.NumRecords != b.Records() || k.ProducerID != b.ProducerID() {
			t.Fatalf("kmsg reads another header: %v", err)
		}
		_ = b.CheckCRC()
		_ = b.Each(Limits{Bytes: 1 << 20}, func(Record) error { return nil })
	})
}

// An accepted batch iterates to the count that Accept returned, and is accepted again unchanged; a
// rejected batch is not changed. The test corrects the CRC first, because the fuzzer would hardly
// find a valid one.
func FuzzAccept(f *testing.F) {
	for i, c := range allCodecs {
		f.Add(foreignBatch(f, c, sample(), nil), uint8(i), false)
		f.Add(foreignBatch(f, c, sample(), nil), uint8(9), true)
	}
	for _, c := range rawCases() {
		f.Add(foreignRaw(f, None, c.raw, c.count, nil), uint8(9), false)
	}
	f.Fuzz(func(t *testing.T, p []byte, to uint8, stamp bool) {
		if b, _, err := Next(p); err == nil {
			b.seal()
		}
		r := &Rules{MaxBatchBytes: 1 << 20, MaxInflatedBytes: 4 << 20, LogAppendTime: stamp, TimestampAfter: time.Hour}
		if int(to) < len(allCodecs) {
			r.Compression = compression(t, Codec(to))
		}
		before := bytes.Clone(p)
		a, err := r.Accept(p, testNow)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind == 0 || e.Msg == "" {
				t.Fatalf("error of another kind: %v", err)
			}
			if !bytes.Equal(p, before) {
				t.Fatal("a rejected batch was changed")
			}
			return
		}
		checkAccepted(t, r, a)
	})
}

func checkAccepted(t *testing.T, r *Rules, a Accepted) {
	b, rest, err := Next(a.Bytes)
	if err != nil || len(rest) > 0 || b.CheckCRC() != nil {
		t.Fatalf("accepted bytes are not one good batch: %v", err)
	}
	n, latest := 0, int64(-1)
	if err := b.Each(Limits{Bytes: r.MaxInflatedBytes}, func(rec Record) error {
		if rec.Offset != int64(n) {
			t.Fatalf("record %d has offset %d", n, rec.Offset)
		}
		n++
		latest = max(latest, rec.Timestamp)
		return nil
	}); err != nil {
		t.Fatalf("accepted batch does not iterate: %v", err)
	}
	if n != a.Records || latest != a.MaxTimestamp {
		t.Fatalf("%d records up to %d, accepted as %+v", n, latest, a)
	}
	if b.LogAppendTime() {
		return // a producer may not send this accepted batch
	}
	again, err := r.Accept(bytes.Clone(a.Bytes), testNow)
	if err != nil || !bytes.Equal(again.Bytes, a.Bytes) {
		t.Fatalf("an accepted batch is not accepted again: %v", err)
	}
}

// FuzzXerial compares the snappy reader with franz-go's, for framed and raw input.
func FuzzXerial(f *testing.F) { fuzzInflater(f, Snappy) }

// FuzzLz4 does the same for the frame reader of this package.
func FuzzLz4(f *testing.F) { fuzzInflater(f, Lz4) }

// FuzzZstd does the same for the reduction of windows.
func FuzzZstd(f *testing.F) { fuzzInflater(f, Zstd) }

func fuzzInflater(f *testing.F, codec Codec) {
	f.Add(foreignDeflate(f, codec, raw1()))
	f.Add(foreignDeflate(f, codec, noise(100)))
	w := NewBuilder(BatchOptions{Compression: compression(f, codec)})
	w.Append(1, nil, bytes.Repeat(noise(50), 1500), nil)
	b, err := w.Build()
	must.OK(f, err)
	f.Add(b.payload())
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := inflateAll(codec, p, limit)
		if len(got) > lightInflated && !codec.inflatesMuch(p) {
			t.Fatalf("inflates to %d bytes, to %d at most by its bound", len(got), lightInflated)
		}
		if err != nil {
			return
		}
		want, err := foreignInflate(codec, p)
		if err != nil {
			t.Fatalf("inflates here, not in franz-go: %v", err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes here, %d in franz-go", len(got), len(want))
		}
	})
}
