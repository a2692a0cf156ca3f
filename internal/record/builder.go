package record

import (
	"encoding/binary"
	"errors"
	"math"
)

// Producer is the identity that idempotent batches carry (KIP-98).
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32 // of the first record of the batch
}

// BatchOptions says what kind of batch a Builder makes. The zero value is a
// plain one: no producer, uncompressed, CreateTime.
type BatchOptions struct {
	BaseOffset    int64
	Producer      *Producer // nil: none
	Compression   Compression
	Transactional bool
	Control       bool // the records are transaction markers or other control records
}

// Builder makes a batch record by record. Offsets count up from the base offset.
// It is used by one goroutine.
type Builder struct {
	opts  BatchOptions
	buf   []byte // header and the records, not compressed
	count int32
	first int64 // timestamp of the first record
	max   int64
	err   error
}

// maxBatch is what the length field can say, and the int32s of readers can hold.
const maxBatch = math.MaxInt32

var errBatchFull = errors.New("build a record batch: it would take more than 2 GiB")

// NewBuilder returns a Builder for one batch.
func NewBuilder(o BatchOptions) *Builder {
	return &Builder{opts: o, buf: make([]byte, HeaderSize, 512), max: noTimestamp}
}

// Len returns how many records were appended.
func (w *Builder) Len() int { return int(w.count) }

// Size returns the bytes of the batch so far, before compression.
func (w *Builder) Size() int { return len(w.buf) }

// Append adds a record: its timestamp in ms since 1970 (-1: none), key and value,
// where nil is null, and headers. The bytes are copied. A batch that grows beyond
// 2 GiB is reported by Build.
func (w *Builder) Append(timestamp int64, key, value []byte, headers []Header) {
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

// appendRecord appends the encoding of a record; false if that would make p larger
// than a batch may be.
func appendRecord(p []byte, timeDelta int64, delta int32, key, value []byte, headers []Header) ([]byte, bool) {
	body := 1 + varintLen(timeDelta) + varintLen(int64(delta)) + fieldLen(key) + fieldLen(value) + varintLen(int64(len(headers)))
	for _, h := range headers {
		body += varintLen(int64(len(h.Key))) + len(h.Key) + fieldLen(h.Value)
	}
	if body > maxBatch-10-len(p) {
		return p, false
	}
	p = binary.AppendVarint(p, int64(body))
	p = append(p, 0)
	p = binary.AppendVarint(p, timeDelta)
	p = binary.AppendVarint(p, int64(delta))
	p = appendField(p, key)
	p = appendField(p, value)
	p = binary.AppendVarint(p, int64(len(headers)))
	for _, h := range headers {
		p = binary.AppendVarint(p, int64(len(h.Key)))
		p = append(p, h.Key...)
		p = appendField(p, h.Value)
	}
	return p, true
}

// Build returns the batch; the Builder is used up. A batch without records is an
// *Error of Kind EmptySet.
func (w *Builder) Build() (Batch, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.count == 0 {
		return nil, refuse(EmptySet, "no record was appended")
	}
	b := Batch(w.buf)
	w.buf, w.err = nil, errors.New("build a record batch: the builder is used up")
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

// recode compresses the records of b, which are not compressed.
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

// appendField appends a length and the bytes, -1 alone for nil.
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

// varintLen returns how many bytes the zigzag encoding of v takes.
func varintLen(v int64) int {
	n := 1
	for u := uint64(v<<1 ^ v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
