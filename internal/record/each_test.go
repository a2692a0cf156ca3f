package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func stored(t *testing.T, codec Codec, recs []Record, change func(*kmsg.RecordBatch)) Batch {
	t.Helper()
	b, _, err := Next(foreignBatch(t, codec, recs, change))
	must.OK(t, err)
	b.SetBaseOffset(100)
	return b
}

func TestEachStops(t *testing.T) {
	stop := errors.New("stop")
	for _, codec := range allCodecs {
		n := 0
		err := stored(t, codec, sample(), nil).Each(Limits{}, func(r Record) error {
			n++
			if r.Offset == 101 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || n != 2 {
			t.Errorf("%s: %d records, %v", codec, n, err)
		}
	}
}

// Records that need more than a window at once can be read.
func TestEachReadsLargeRecords(t *testing.T) {
	recs := []Record{{Timestamp: 1, Value: noise(windowSize + 1)}, {Timestamp: 2, Value: noise(3*windowKept + 7)},
		{Timestamp: 3, Key: noise(10)}}
	for _, codec := range allCodecs {
		if !reflect.DeepEqual(numbered(100, recs), collect(t, stored(t, codec, recs, nil))) {
			t.Errorf("%s: large records differ", codec)
		}
	}
}

// Each reads batches with gaps in the offsets, and batches without records, which a cleaner keeps
// for the producer's sequence.
func TestEachReadsCompactedBatches(t *testing.T) {
	raw := append(foreignRecord(3, 0, Record{Value: []byte("a")}), foreignRecord(9, 1, Record{})...)
	for _, codec := range allCodecs {
		b, _, err := Next(foreignRaw(t, codec, raw, 2, func(b *kmsg.RecordBatch) { b.LastOffsetDelta, b.FirstOffset = 20, 1000 }))
		must.OK(t, err)
		got := collect(t, b)
		if len(got) != 2 || got[0].Offset != 1003 || got[1].Offset != 1009 || b.LastOffset() != 1020 {
			t.Errorf("%s: %+v", codec, got)
		}
		empty, _, err := Next(foreignRaw(t, None, nil, 0, func(b *kmsg.RecordBatch) { b.Attributes, b.LastOffsetDelta = int16(codec), 5 }))
		must.OK(t, err)
		if got := collect(t, empty); len(got) != 0 {
			t.Errorf("%s: records in an empty batch", codec)
		}
	}
}

// Each reports damage even before a CRC was verified.
func TestEachDoesNotRelyOnAccept(t *testing.T) {
	for _, c := range rawCases() {
		if c.name == "offset delta repeats" || c.name == "offset delta skips" || c.name == "offset delta negative" {
			continue // the cleaner may create gaps
		}
		b, _, err := Next(foreignRaw(t, None, c.raw, c.count, nil))
		must.OK(t, err)
		if err := b.Each(Limits{}, func(Record) error { return nil }); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	b, _, _ := Next(foreignBatch(t, None, sample(), func(b *kmsg.RecordBatch) { b.NumRecords = -1 }))
	if err := b.Each(Limits{}, nil); err == nil {
		t.Error("a negative count: no error")
	}
	b, _, _ = Next(foreignBatch(t, None, sample(), func(b *kmsg.RecordBatch) { b.Attributes = 6 }))
	if e, ok := errors.AsType[*Error](b.Each(Limits{}, nil)); !ok || e.Kind != UnsupportedCodec {
		t.Error("codec 6: no error")
	}
}

func TestFindTimestamp(t *testing.T) {
	recs := []Record{{Timestamp: 50}, {Timestamp: 10}, {Timestamp: 70}, {Timestamp: 70}, {Timestamp: 60}}
	for _, codec := range allCodecs {
		b := stored(t, codec, recs, nil)
		for _, c := range []struct {
			ts, from      int64
			offset, found int64
		}{
			{0, 0, 100, 50}, {50, 0, 100, 50}, {51, 0, 102, 70}, {70, 0, 102, 70}, {71, 0, -1, 0},
			{0, 101, 101, 10}, {60, 103, 103, 70}, {60, 104, 104, 60}, {70, 104, -1, 0}, {0, 105, -1, 0},
		} {
			offset, ts, found, err := b.FindTimestamp(c.ts, c.from, Limits{})
			if err != nil || found != (c.offset >= 0) || found && (offset != c.offset || ts != c.found) {
				t.Errorf("%s: first at or after %d from offset %d: %d (time %d), %v, %v", codec, c.ts, c.from, offset, ts, found, err)
			}
		}
		b.Stamp(80)
		if offset, ts, found, err := b.FindTimestamp(80, 103, Limits{}); offset != 103 || ts != 80 || !found || err != nil {
			t.Errorf("%s: LogAppendTime: found %d (time %d), %v, %v", codec, offset, ts, found, err)
		}
	}
	lie := stored(t, None, recs, func(b *kmsg.RecordBatch) { b.MaxTimestamp = 99 })
	if _, _, found, err := lie.FindTimestamp(99, 0, Limits{}); found || err != nil {
		t.Errorf("a timestamp that no record has is found, %v", err)
	}
	cut := stored(t, None, recs, func(b *kmsg.RecordBatch) { b.Records = b.Records[:10] })
	if _, _, found, err := cut.FindTimestamp(70, 0, Limits{}); found || err == nil {
		t.Error("a cut batch is searched without an error")
	}
}

func TestBuilder(t *testing.T) {
	for _, codec := range allCodecs {
		w := NewBuilder(BatchOptions{BaseOffset: 42, Compression: compression(t, codec), Transactional: true, Control: true,
			Producer: &Producer{ID: 1, Epoch: 2, Sequence: 3}})
		for i, r := range sample() {
			if w.Len() != i {
				t.Errorf("length is %d after %d records", w.Len(), i)
			}
			w.Append(r.Timestamp, r.Key, r.Value, slices.Collect(r.Headers.All()))
		}
		b, err := w.Build()
		must.OK(t, err)
		if err := b.CheckCRC(); err != nil {
			t.Error(err)
		}
		if _, rest, err := Next(b); err != nil || len(rest) > 0 {
			t.Errorf("%s: not one batch: %v", codec, err)
		}
		k, recs := foreignDecode(t, b)
		if d := cmp.Diff(numbered(42, sample()), recs, inside); d != "" {
			t.Errorf("%s: %s", codec, d)
		}
		if k.ProducerID != 1 || k.ProducerEpoch != 2 || k.FirstSequence != 3 || k.Attributes != int16(codec)|0x30 ||
			k.MaxTimestamp != 1_700_000_000_500 || k.LastOffsetDelta != 2 {
			t.Errorf("%s: header %+v", codec, k)
		}
		if _, err := w.Build(); err == nil {
			t.Error("a second Build succeeds")
		}
	}
	_, err := NewBuilder(BatchOptions{}).Build()
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != EmptySet {
		t.Errorf("a batch without records: %v", err)
	}
	plain := NewBuilder(BatchOptions{})
	plain.Append(-1, nil, nil, nil)
	if plain.Size() != HeaderSize+7 {
		t.Errorf("size is %d", plain.Size())
	}
	b, err := plain.Build()
	if err != nil || b.ProducerID() != -1 || b.ProducerEpoch() != -1 || b.BaseSequence() != -1 || b.LastSequence() != -1 ||
		b.MaxTimestamp() != -1 {
		t.Errorf("a plain batch: %v", err)
	}
	mustAccept(t, &Rules{}, b)
}

// A size beyond the range of the length field is an error, not a batch.
func TestBuilderRefusesToWrap(t *testing.T) {
	w := NewBuilder(BatchOptions{})
	w.buf = w.buf[:HeaderSize]
	w.Append(1, nil, []byte("small"), nil)
	w.count = 1<<31 - 1 // as if so many records had been appended
	w.Append(1, nil, nil, nil)
	if _, err := w.Build(); err == nil {
		t.Error("a count that wraps is built")
	}
}

func TestVarintLen(t *testing.T) {
	for shift := range 64 {
		for _, v := range []int64{1 << shift, -1 << shift, 1<<shift - 1, -1<<shift - 1} {
			if got, want := varintLen(v), len(binary.AppendVarint(nil, v)); got != want {
				t.Errorf("varintLen(%d) = %d, want %d", v, got, want)
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	_, err := (&Rules{RequireKeys: true}).Accept(foreignBatch(t, None, sample(), nil), testNow)
	const want = "record batch: invalid record: record 1: Compacted topic cannot accept message without key"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for k := Corrupt; k <= EmptySet; k++ {
		if bytes.HasPrefix([]byte(k.String()), []byte("kind")) {
			t.Errorf("kind %d has no name", k)
		}
	}
}
