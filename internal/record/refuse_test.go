package record

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wantKind checks that p is rejected as kind, at record index (-1: as a whole), and not changed.
func wantKind(t testing.TB, name string, r *Rules, p []byte, kind Kind, index int32) {
	t.Helper()
	before := bytes.Clone(p)
	a, err := r.Accept(p, testNow)
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		t.Errorf("%s: error is %v, want %s", name, err, kind)
	case e.Kind != kind || e.Record != index:
		t.Errorf("%s: rejected as %q at record %d, want %q at %d: %s", name, e.Kind, e.Record, kind, index, e.Msg)
	case e.Msg == "" || (e.Record >= 0) != (len(e.Records) > 0):
		t.Errorf("%s: incomplete error: %#v", name, e)
	}
	if a.Bytes != nil || !bytes.Equal(p, before) {
		t.Errorf("%s: a rejected batch was used or changed", name)
	}
}

func TestAcceptRefusesHeaders(t *testing.T) {
	idempotent := func(id int64, epoch int16, seq int32) func(*kmsg.RecordBatch) {
		return func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = id, epoch, seq }
	}
	attrs := func(a int16) func(*kmsg.RecordBatch) { return func(b *kmsg.RecordBatch) { b.Attributes = a } }
	for _, c := range []struct {
		name   string
		change func(*kmsg.RecordBatch)
		want   Kind
	}{
		{"base offset", func(b *kmsg.RecordBatch) { b.FirstOffset = 1 }, InvalidRecord},
		{"negative base offset", func(b *kmsg.RecordBatch) { b.FirstOffset = -1 }, InvalidRecord},
		{"count 0", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 0, -1 }, InvalidRecord},
		{"negative count", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = -5, -6 }, InvalidRecord},
		{"count over last offset delta", func(b *kmsg.RecordBatch) { b.NumRecords++ }, InvalidRecord},
		{"count under last offset delta", func(b *kmsg.RecordBatch) { b.LastOffsetDelta++ }, InvalidRecord},
		{"count and delta wrap", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = math.MinInt32, math.MaxInt32 },
			InvalidRecord},
		{"codec 5", attrs(5), UnsupportedCodec},
		{"codec 7", attrs(7), UnsupportedCodec},
		{"timestamp type", attrs(8), InvalidTimestamp},
		{"control", attrs(0x20), InvalidRecord},
		{"delete horizon", attrs(0x40), InvalidRecord},
		{"unknown attribute", attrs(0x80), InvalidRecord},
		{"unknown attribute, high byte", attrs(math.MinInt16), InvalidRecord},
		{"producer id -2", idempotent(-2, 0, 0), InvalidRecord},
		{"producer id of brokers", idempotent(FirstBrokerProducer, 0, 0), InvalidRecord},
		{"producer without epoch", idempotent(1, -1, 0), InvalidRecord},
		{"producer without sequence", idempotent(1, 0, -1), InvalidRecord},
		{"transactional without producer", attrs(0x10), InvalidRecord},
	} {
		wantKind(t, c.name, &Rules{}, foreignBatch(t, None, sample(), c.change), c.want, -1)
	}
	transactional := foreignBatch(t, None, sample(), func(b *kmsg.RecordBatch) {
		idempotent(1, 2, 0)(b)
		b.Attributes = 0x10
	})
	mustAccept(t, &Rules{}, transactional)
	if id, epoch, ok := Transaction(transactional); !ok || id != 1 || epoch != 2 {
		t.Errorf("producer %d, epoch %d, %v", id, epoch, ok)
	}
	for name, p := range map[string][]byte{"nothing": nil, "cut": transactional[:HeaderSize-1],
		"outside of transactions": foreignBatch(t, None, sample(), idempotent(1, 2, 0))} {
		if _, _, ok := Transaction(p); ok {
			t.Errorf("%s is taken for a transactional batch", name)
		}
	}
}

func TestAcceptRejectsOtherThanOneBatch(t *testing.T) {
	one := foreignBatch(t, None, sample(), nil)
	join := func(p ...[]byte) []byte { return bytes.Join(p, nil) }
	set := func(at int, v byte) []byte {
		p := bytes.Clone(one)
		p[at] = v
		return p
	}
	for _, c := range []struct {
		name string
		p    []byte
		want Kind
	}{
		{"nothing", nil, EmptySet},
		{"a part of a header", one[:20], EmptySet},
		{"a part of a batch", one[:len(one)-1], EmptySet},
		{"length beyond the data", set(atLength, 0x7f), EmptySet},
		{"two batches", join(one, one), InvalidRecord},
		{"one and a half", join(one, one[:30]), Corrupt},
		{"one and a byte", join(one, []byte{0}), Corrupt},
		{"format 0", set(atMagic, 0), UnsupportedFormat},
		{"format 1", set(atMagic, 1), UnsupportedFormat},
		{"format 9", set(atMagic, 9), Corrupt},
		{"a header bit flipped", set(atRecords, 1), Corrupt},
		{"a record bit flipped", set(HeaderSize+5, 0x55), Corrupt},
		{"the CRC flipped", set(atCRC, one[atCRC]^1), Corrupt},
	} {
		wantKind(t, c.name, &Rules{}, c.p, c.want, -1)
	}
}

// rawCases are records as a broken client may encode them; index is the first wrong record, or -1
// for the whole batch.
func rawCases() []struct {
	name  string
	raw   []byte
	count int
	index int32
} {
	good := foreignRecord(0, 0, Record{Key: []byte("k"), Value: []byte("v")})
	second := foreignRecord(1, 0, Record{Value: []byte("v")})
	join := func(p ...[]byte) []byte { return bytes.Join(p, nil) }
	return []struct {
		name  string
		raw   []byte
		count int
		index int32
	}{
		{"no records", nil, 1, 0},
		{"one record too few", good, 2, 1},
		{"one record too many", join(good, second), 1, -1},
		{"a byte after the last record", join(good, []byte{0}), 1, -1},
		{"the last record cut", join(good, second[:len(second)-1]), 2, 1},
		{"offset delta repeats", join(good, good), 2, 1},
		{"offset delta skips", join(good, foreignRecord(2, 0, Record{})), 2, 1},
		{"offset delta negative", foreignRecord(-1, 0, Record{}), 1, 0},
		{"length 0", []byte{0}, 1, 0},
		{"length negative", []byte{0x0b, 0, 0, 0, 1, 1, 0}, 1, 0},
		{"length too small for the fields", []byte{0x0a, 0, 0, 0, 1, 1, 0}, 1, 0},
		{"length too large for the fields", []byte{0x0e, 0, 0, 0, 1, 1, 0, 0}, 1, 0},
		{"length of more than 32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 1, 1, 0}, 1, 0},
		{"length without end", []byte{0x8c, 0x80, 0x80, 0x80, 0x80, 0x00, 0, 0, 0, 1, 1, 0}, 1, 0},
		{"timestamp delta of more than 64 bits", []byte{0x20, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0,
			1, 1, 0}, 1, 0},
		{"offset delta of more than 32 bits", []byte{0x14, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0}, 1, 0},
		{"key length -2", []byte{0x0c, 0, 0, 0, 3, 1, 0}, 1, 0},
		{"key beyond the record", []byte{0x0c, 0, 0, 0, 8, 1, 0}, 1, 0},
		{"value length -2", []byte{0x0c, 0, 0, 0, 1, 3, 0}, 1, 0},
		{"value beyond the record", join([]byte{0x0c, 0, 0, 0, 1, 4, 0}, second), 2, 0},
		{"value of 2 GiB", []byte{0x14, 0, 0, 0, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0}, 1, 0},
		{"header count negative", []byte{0x0c, 0, 0, 0, 1, 1, 1}, 1, 0},
		{"header count beyond the record", []byte{0x0c, 0, 0, 0, 1, 1, 2}, 1, 0},
		{"header count of 2^31-1", []byte{0x14, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f}, 1, 0},
		{"header key null", []byte{0x10, 0, 0, 0, 1, 1, 2, 1, 1}, 1, 0},
		{"header key beyond the record", []byte{0x10, 0, 0, 0, 1, 1, 2, 8, 1}, 1, 0},
		{"header value length -2", []byte{0x10, 0, 0, 0, 1, 1, 2, 0, 3}, 1, 0},
		{"header value beyond the record", []byte{0x10, 0, 0, 0, 1, 1, 2, 0, 2}, 1, 0},
		{"a byte after the headers", []byte{0x12, 0, 0, 0, 1, 1, 2, 0, 1, 0}, 1, 0},
	}
}

// Invalid records are rejected with every codec, at the same record, with and without a change of
// codec.
func TestAcceptRefusesRecords(t *testing.T) {
	for _, c := range rawCases() {
		for _, codec := range allCodecs {
			if c.raw == nil && codec == Lz4 {
				continue // franz-go writes an empty frame of a kind that no client sends
			}
			for _, r := range []*Rules{{}, {Compression: compression(t, Snappy)}, {LogAppendTime: true}} {
				wantKind(t, codec.String()+": "+c.name, r, foreignRaw(t, codec, c.raw, c.count, nil), InvalidRecord, c.index)
			}
		}
	}
}

func TestAcceptRefusesTimestamps(t *testing.T) {
	for _, codec := range allCodecs {
		recs := sample()
		recs[1].Timestamp = -2
		wantKind(t, "negative timestamp", &Rules{}, foreignBatch(t, codec, recs, nil), InvalidTimestamp, 1)
		over := foreignRaw(t, codec, foreignRecord(0, 2, Record{}), 1, func(b *kmsg.RecordBatch) { b.FirstTimestamp = math.MaxInt64 - 1 })
		wantKind(t, "timestamp beyond 64 bits", &Rules{}, over, InvalidTimestamp, 0)
		under := foreignRaw(t, codec, foreignRecord(0, -2, Record{}), 1, func(b *kmsg.RecordBatch) { b.FirstTimestamp = math.MinInt64 + 1 })
		wantKind(t, "timestamp below 64 bits", &Rules{}, under, InvalidTimestamp, 0)
	}
}
