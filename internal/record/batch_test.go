package record

import (
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// golden is one fixed batch: producer id 7, epoch 3, sequence 11, records
// (ts 1000, key "a", value "b") and (ts 1005, null, "c", header "h": null).
const golden = "0000000000000000" + "00000045" + "ffffffff" + "02" + "5f7e2d17" + "0000" + "00000001" +
	"00000000000003e8" + "00000000000003ed" + "0000000000000007" + "0003" + "0000000b" + "00000002" +
	"10" + "00" + "00" + "00" + "0261" + "0262" + "00" +
	"14" + "00" + "0a" + "02" + "01" + "0263" + "02" + "0268" + "01"

func goldenBatch(t *testing.T) Batch {
	p, err := hex.DecodeString(golden)
	must.OK(t, err)
	b, rest, err := Next(p)
	if err != nil || len(rest) > 0 {
		t.Fatalf("Next: %d bytes left, %v", len(rest), err)
	}
	return b
}

func goldenRecords() []Record {
	return []Record{
		{Offset: 0, Timestamp: 1000, Key: []byte("a"), Value: []byte("b")},
		{Offset: 1, Timestamp: 1005, Value: []byte("c"), Headers: HeadersOf(Header{Key: []byte("h")})},
	}
}

func TestGoldenBatchReads(t *testing.T) {
	b := goldenBatch(t)
	must.OK(t, b.CheckCRC())
	got := []int64{b.BaseOffset(), b.LastOffset(), int64(b.LastOffsetDelta()), int64(b.LeaderEpoch()), int64(b.Magic()),
		int64(b.Attributes()), b.FirstTimestamp(), b.MaxTimestamp(), b.ProducerID(), int64(b.ProducerEpoch()),
		int64(b.BaseSequence()), int64(b.LastSequence()), int64(b.Records()), int64(b.Size())}
	want := []int64{0, 1, 1, -1, 2, 0, 1000, 1005, 7, 3, 11, 12, 2, 81}
	if d := cmp.Diff(want, got, inside); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(goldenRecords(), collect(t, b), inside); d != "" {
		t.Error(d)
	}
}

func TestBuilderBuildsTheGoldenBatch(t *testing.T) {
	w := NewBuilder(BatchOptions{Producer: &Producer{ID: 7, Epoch: 3, Sequence: 11}})
	for _, r := range goldenRecords() {
		w.Append(r.Timestamp, r.Key, r.Value, slices.Collect(r.Headers.All()))
	}
	b, err := w.Build()
	must.OK(t, err)
	if got := hex.EncodeToString(b); got != golden {
		t.Errorf("got  %s\nwant %s", got, golden)
	}
}

// The view and kmsg agree on every field, flags included.
func TestViewAgreesWithKmsg(t *testing.T) {
	for _, attrs := range []int16{0, 1, 2, 3, 4, 8, 0x10, 0x20, 0x3c} {
		p := foreignBatch(t, None, sample(), func(b *kmsg.RecordBatch) {
			b.FirstOffset, b.PartitionLeaderEpoch, b.Attributes = 1<<40, 77, attrs
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1<<50, 9, math.MaxInt32
		})
		b, _, err := Next(p)
		must.OK(t, err)
		var k kmsg.RecordBatch
		must.OK(t, k.ReadFrom(p))
		got := kmsg.RecordBatch{FirstOffset: b.BaseOffset(), Length: int32(b.Size() - 12), PartitionLeaderEpoch: b.LeaderEpoch(),
			Magic: b.Magic(), CRC: int32(b.CRC()), Attributes: b.Attributes(), LastOffsetDelta: b.LastOffsetDelta(),
			FirstTimestamp: b.FirstTimestamp(), MaxTimestamp: b.MaxTimestamp(), ProducerID: b.ProducerID(),
			ProducerEpoch: b.ProducerEpoch(), FirstSequence: b.BaseSequence(), NumRecords: b.Records(), Records: b.payload()}
		if d := cmp.Diff(k, got); d != "" {
			t.Error(d)
		}
		if b.Codec() != Codec(attrs&7) || b.LogAppendTime() != (attrs&8 != 0) || b.Transactional() != (attrs&16 != 0) ||
			b.Control() != (attrs&32 != 0) {
			t.Errorf("flags of attributes %#x are read wrong", attrs)
		}
		if b.LastSequence() != 1 {
			t.Errorf("last sequence is %d, want 1: after 2^31-1 comes 0", b.LastSequence())
		}
	}
}

func TestAddSequenceWraps(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 0, 0}, {0, 5, 5}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0},
		{math.MaxInt32 - 2, 5, 2}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		if got := AddSequence(c.seq, c.n); got != c.want {
			t.Errorf("AddSequence(%d, %d) = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
}

func TestNextSplitsBatches(t *testing.T) {
	a, b := foreignBatch(t, None, sample()[:1], nil), foreignBatch(t, Gzip, sample(), nil)
	p := append(append([]byte{}, a...), b...)
	first, rest, err := Next(p)
	if err != nil || string(first) != string(a) {
		t.Fatalf("first batch: %v", err)
	}
	second, rest, err := Next(rest)
	if err != nil || string(second) != string(b) || len(rest) != 0 {
		t.Fatalf("second batch: %d bytes left, %v", len(rest), err)
	}
	if cap(first) != len(first) {
		t.Error("appending to a batch would write over the next")
	}
	for n := range len(a) {
		if _, _, err := Next(a[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("Next of %d of %d bytes: %v, want ErrShort", n, len(a), err)
		}
	}
}

func TestNextRefuses(t *testing.T) {
	set := func(at int, v ...byte) []byte {
		p := []byte(goldenBatch(t))
		copy(p[at:], v)
		return p
	}
	for _, c := range []struct {
		name string
		p    []byte
		want Kind
	}{
		{"zeros", make([]byte, 100), Corrupt},
		{"negative length", set(atLength, 0xff), Corrupt},
		{"length of less than a header", set(atLength, 0, 0, 0, 48), Corrupt},
		{"format 0", set(atMagic, 0), UnsupportedFormat},
		{"format 1", set(atMagic, 1), UnsupportedFormat},
		{"format 3", set(atMagic, 3), Corrupt},
		{"negative format", set(atMagic, 0xff), Corrupt},
	} {
		_, _, err := Next(c.p)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != c.want || e.Record != -1 {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// A broker can assign offsets to a batch without reading its records.
func TestSettersLeaveTheCRC(t *testing.T) {
	b := goldenBatch(t)
	b.SetBaseOffset(math.MaxInt64 - 1)
	b.SetLeaderEpoch(math.MaxInt32)
	if b.BaseOffset() != math.MaxInt64-1 || b.LastOffset() != math.MaxInt64 || b.LeaderEpoch() != math.MaxInt32 {
		t.Error("the values were not set")
	}
	if err := b.CheckCRC(); err != nil {
		t.Error(err)
	}
	b[len(b)-1]++
	if e, ok := errors.AsType[*Error](b.CheckCRC()); !ok || e.Kind != Corrupt {
		t.Error("a changed byte has the same CRC")
	}
}

func TestStampGivesAllRecordsOneTime(t *testing.T) {
	b := goldenBatch(t)
	b.Stamp(5000)
	must.OK(t, b.CheckCRC())
	_, recs := foreignDecode(t, b)
	for i, r := range collect(t, b) {
		if r.Timestamp != 5000 || recs[i].Timestamp != 5000 {
			t.Errorf("record %d has time %d, franz-go reads %d", i, r.Timestamp, recs[i].Timestamp)
		}
	}
	b.Stamp(6000)
	if b.MaxTimestamp() != 6000 || b.CheckCRC() != nil {
		t.Error("a second stamp has no effect")
	}
}
