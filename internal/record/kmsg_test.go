package record

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The other side of the cross-checks: the encoding, decoding and codecs of franz-go, which share no
// code with this package.

// foreignBatch encodes records as a franz-go producer does; change, unless nil, alters the header
// before the CRC is computed.
func foreignBatch(t testing.TB, codec Codec, recs []Record, change func(*kmsg.RecordBatch)) []byte {
	t.Helper()
	var raw []byte
	first, latest := recs[0].Timestamp, int64(-1)
	for i, r := range recs {
		raw = append(raw, foreignRecord(int32(i), r.Timestamp-first, r)...)
		latest = max(latest, r.Timestamp)
	}
	return foreignRaw(t, codec, raw, len(recs), func(b *kmsg.RecordBatch) {
		b.FirstTimestamp, b.MaxTimestamp = first, latest
		if change != nil {
			change(b)
		}
	})
}

func foreignRecord(delta int32, tsDelta int64, r Record) []byte {
	k := kmsg.Record{TimestampDelta64: tsDelta, OffsetDelta: delta, Key: r.Key, Value: r.Value}
	for h := range r.Headers.All() {
		k.Headers = append(k.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
	}
	k.Length = int32(len(k.AppendTo(nil)) - 1) // the length 0 takes one byte
	return k.AppendTo(nil)
}

// foreignRaw puts a header before encoded records and compresses them with franz-go's codec.
func foreignRaw(t testing.TB, codec Codec, raw []byte, count int, change func(*kmsg.RecordBatch)) []byte {
	t.Helper()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(codec), LastOffsetDelta: int32(count - 1),
		FirstTimestamp: -1, MaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(count), Records: raw,
	}
	if codec != None {
		b.Records = foreignDeflate(t, codec, raw)
	}
	if change != nil {
		change(&b)
	}
	b.Length = int32(HeaderSize - 12 + len(b.Records))
	p := b.AppendTo(nil)
	Batch(p).seal()
	return p
}

func foreignDeflate(t testing.TB, codec Codec, raw []byte) []byte {
	t.Helper()
	c, err := kgo.DefaultCompressor(map[Codec]kgo.CompressionCodec{
		Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), Lz4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression(),
	}[codec])
	must.OK(t, err)
	var buf bytes.Buffer
	p, used := c.Compress(&buf, raw)
	if int(used) != int(codec) {
		t.Fatalf("franz-go compressed with codec %d, want %s", used, codec)
	}
	return bytes.Clone(p)
}

// foreignDecode decodes a batch as a franz-go consumer does.
func foreignDecode(t testing.TB, p []byte) (kmsg.RecordBatch, []Record) {
	t.Helper()
	var b kmsg.RecordBatch
	if err := b.ReadFrom(p); err != nil {
		t.Fatalf("kmsg cannot read the batch: %v", err)
	}
	raw := b.Records
	if codec := b.Attributes & 7; codec != 0 {
		var err error
		raw, err = kgo.DefaultDecompressor().Decompress(raw, kgo.CompressionCodecType(codec))
		if err != nil {
			t.Fatalf("franz-go cannot inflate the batch: %v", err)
		}
	}
	var recs []Record
	for range b.NumRecords {
		var c cursor
		c.buf = raw
		n, _, ok := c.varint(32)
		if !ok {
			t.Fatal("the records end too early")
		}
		size := c.pos + int(n)
		var k kmsg.Record
		if err := k.ReadFrom(raw[:size]); err != nil {
			t.Fatalf("kmsg cannot read a record: %v", err)
		}
		raw = raw[size:]
		r := Record{Offset: b.FirstOffset + int64(k.OffsetDelta), Timestamp: b.FirstTimestamp + k.TimestampDelta64,
			Key: k.Key, Value: k.Value}
		if b.Attributes&8 != 0 {
			r.Timestamp = b.MaxTimestamp
		}
		var headers []Header
		for _, h := range k.Headers {
			headers = append(headers, Header{Key: []byte(h.Key), Value: h.Value})
		}
		r.Headers = HeadersOf(headers...)
		recs = append(recs, r)
	}
	if len(raw) > 0 {
		t.Fatalf("%d bytes follow the last record", len(raw))
	}
	return b, recs
}

// collect copies the records that Each passes to it.
func collect(t testing.TB, b Batch) []Record {
	t.Helper()
	var recs []Record
	err := b.Each(Limits{}, func(r Record) error {
		r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		// Encoded again, as the readers that these records are compared with do.
		r.Headers = HeadersOf(slices.Collect(r.Headers.All())...)
		recs = append(recs, r)
		return nil
	})
	if err != nil {
		t.Fatalf("Each: %v", err)
	}
	return recs
}

// numbered assigns offsets from base on to records.
func numbered(base int64, recs []Record) []Record {
	out := make([]Record, len(recs))
	for i, r := range recs {
		r.Offset = base + int64(i)
		out[i] = r
	}
	return out
}

// sample returns records with every feature that a record can have.
func sample() []Record {
	return []Record{
		{Timestamp: 1_700_000_000_000, Key: []byte("k"), Value: []byte("value")},
		{Timestamp: 1_700_000_000_500, Value: bytes.Repeat([]byte("abcd"), 64)},
		{Timestamp: 1_699_999_999_000, Key: []byte{}, Headers: HeadersOf(
			Header{Key: []byte("h"), Value: []byte("x")}, Header{Key: []byte{}, Value: nil}, Header{Key: []byte("e"), Value: []byte{}})},
	}
}

// inside lets cmp compare Headers.
var inside = cmp.AllowUnexported(Headers{})

var allCodecs = []Codec{None, Gzip, Snappy, Lz4, Zstd}

func compression(t testing.TB, c Codec) Compression {
	t.Helper()
	l := DefaultLevels()
	comp, err := CompressWith(c, map[Codec]int{Gzip: l.Gzip, Lz4: l.Lz4, Zstd: l.Zstd}[c])
	must.OK(t, err)
	return comp
}

func foreignInflate(codec Codec, p []byte) ([]byte, error) {
	return kgo.DefaultDecompressor().Decompress(p, kgo.CompressionCodecType(codec))
}

// inflateAll reads a compressed payload to its end through the cursor's limit.
func inflateAll(codec Codec, p []byte, limit int64) ([]byte, error) {
	inf := getInflater(codec)
	defer putInflater(codec, inf)
	defer inf.close()
	if err := inf.open(p, limit, sharedBudget()); err != nil {
		return nil, err
	}
	var all bytes.Buffer
	c := cursor{src: inf, limit: limit, buf: make([]byte, 0, 100), tee: &all}
	for c.more() {
		c.pos = len(c.buf)
	}
	return all.Bytes(), c.err
}
