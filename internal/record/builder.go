package record

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// Producer is the identity of an idempotent batch (KIP-98).
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32 // of the first record of the batch
}

// BatchOptions configure the batch of a Builder. The zero value is a plain batch: no producer,
// uncompressed, CreateTime.
type BatchOptions struct {
	BaseOffset    int64
	Producer      *Producer // nil: none
	Compression   Compression
	Transactional bool
	Control       bool // the records are transaction markers or other control records
}

// Builder builds a batch record by record. Offsets count up from the base offset. A Builder must
// not be used concurrently.
type Builder struct {
	opts  BatchOptions
	buf   []byte // header and uncompressed records
	count int32
	first int64 // timestamp of the first record
	max   int64
	err   error
}

// maxBatch is the limit of the length field, and of readers that use int32.
const maxBatch = math.MaxInt32

var errBatchFull = errors.New("build a record batch: it is larger than 2 GiB")

// NewBuilder returns a Builder for one batch.
func NewBuilder(o BatchOptions) *Builder {
	return &Builder{opts: o, buf: make([]byte, HeaderSize, 512), max: noTimestamp}
}

// Grow makes room for n more bytes of records, so that appends copy no earlier ones.
func (w *Builder) Grow(n int) { w.buf = slices.Grow(w.buf, n) }

// Len returns the number of appended records.
func (w *Builder) Len() int { return int(w.count) }

// Size returns the size of the batch so far in bytes, before compression.
func (w *Builder) Size() int { return len(w.buf) }

// Append adds a record: its timestamp in ms since 1970 (-1: none), its key and value, where nil is
// null, and its headers. It copies the bytes. Build reports a batch larger than 2 GiB.
func (w *Builder) Append(timestamp int64, key, value []byte, headers []Header) {
	w.AppendEncoded(timestamp, key, value, HeadersOf(headers...))
}

// AppendEncoded is Append with encoded headers.
func (w *Builder) AppendEncoded(timestamp int64, key, value []byte, headers Headers) {
	if w.count == 0 {
		w.first = timestamp
	}
	p, ok := appendRecord(w.buf, timestamp-w.first, w.count, key, value, headers)
	if w.err != nil || !ok || w.count == math.MaxInt32 {
		w.err = errBatchFull
		return
	}
	w.buf = p
	w.count++
	w.max = max(w.max, timestamp)
}

// appendRecord appends the encoding of a record; it returns false if p would exceed the size limit
// of a batch.
func appendRecord(p []byte, timeDelta int64, delta int32, key, value []byte, headers Headers) ([]byte, bool) {
	body := 1 + varintLen(timeDelta) + varintLen(int64(delta)) + fieldLen(key) + fieldLen(value) + varintLen(int64(headers.n)) +
		len(headers.raw)
	if body > maxBatch-10-len(p) {
		return p, false
	}
	p = binary.AppendVarint(p, int64(body))
	p = append(p, 0)
	p = binary.AppendVarint(p, timeDelta)
	p = binary.AppendVarint(p, int64(delta))
	p = appendField(p, key)
	p = appendField(p, value)
	p = binary.AppendVarint(p, int64(headers.n))
	return append(p, headers.raw...), true
}

// Build returns the batch; the Builder cannot be used afterwards. For a batch without records it
// returns an *Error of Kind EmptySet.
func (w *Builder) Build() (Batch, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.count == 0 {
		return nil, refuse(EmptySet, "no record was appended")
	}
	b := Batch(w.buf)
	w.buf, w.err = nil, errors.New("build a record batch: Build was called before")
	w.header(b)
	if w.opts.Compression.codec != None {
		var err error
		if b, err = recode(w.opts.Compression, b); err != nil {
			return nil, err
		}
	}
	b.setLength()
	b.seal()
	return b, nil
}

// recode compresses the uncompressed records of b.
func recode(c Compression, b Batch) (Batch, error) {
	r, err := c.recoder(b, maxBatch)
	if err != nil {
		return nil, err
	}
	defer r.release()
	if _, err := r.Write(b.payload()); err != nil {
		return nil, err
	}
	return r.finish()
}

func (w *Builder) header(b Batch) {
	p := Producer{ID: -1, Epoch: -1, Sequence: -1}
	if w.opts.Producer != nil {
		p = *w.opts.Producer
	}
	var attributes int16
	if w.opts.Transactional {
		attributes |= attrTransactional
	}
	if w.opts.Control {
		attributes |= attrControl
	}
	b[atMagic] = magicV2
	b.SetBaseOffset(w.opts.BaseOffset)
	b.SetLeaderEpoch(-1)
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(w.count-1))
	binary.BigEndian.PutUint64(b[atFirstTimestamp:], uint64(w.first))
	b.setMaxTimestamp(w.max)
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(p.ID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(p.Epoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(p.Sequence))
	binary.BigEndian.PutUint32(b[atRecords:], uint32(w.count))
}

// appendField appends a length and the bytes, or only -1 for nil.
func appendField(dst, p []byte) []byte {
	if p == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(p)))
	return append(dst, p...)
}

func fieldLen(p []byte) int {
	if p == nil {
		return 1
	}
	return varintLen(int64(len(p))) + len(p)
}

// varintLen returns the length of the zigzag encoding of v.
func varintLen(v int64) int {
	n := 1
	for u := uint64(v<<1 ^ v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
