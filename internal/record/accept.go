package record

import (
	"errors"
	"io"
	"math"
	"time"
)

// Rules are a topic's requirements for batches that clients send. They are built once per version
// of the topic's configuration and may be read by any number of goroutines.
type Rules struct {
	// MaxBatchBytes bounds the batch as it is sent and as it is stored, in bytes
	// (max.message.bytes); 0: only the format's limit of 2 GiB.
	MaxBatchBytes int
	// MaxInflatedBytes bounds the inflated size of a compressed batch; 0: inflatedRatio times
	// MaxBatchBytes, at least minInflated and at most DefaultMaxInflated. Kafka has no such
	// bound, and so no protection.
	MaxInflatedBytes int64
	// Compression is the codec of stored batches (compression.type).
	Compression Compression
	// LogAppendTime gives records the broker's time (message.timestamp.type).
	LogAppendTime bool
	// TimestampBefore and TimestampAfter bound the difference between a CreateTime timestamp and
	// the broker's time (message.timestamp.before.max.ms, .after.max.ms); 0: unlimited.
	// TimestampLimit converts a config value.
	TimestampBefore, TimestampAfter time.Duration
	// RequireKeys rejects records without a key (cleanup.policy contains compact).
	RequireKeys bool
	// OfBroker: a broker has made the batch. It may have a producer id that clients must not use.
	OfBroker bool
}

// FirstBrokerProducer is the first of the producer ids that only brokers use, above all ids that
// clients get. Brokers believe what the last batch of such an id says.
const FirstBrokerProducer = int64(1) << 62

// TimestampLimit converts a config value to a limit in Rules. In a config, 0 allows no difference
// at all, and the largest Duration allows any.
func TimestampLimit(d time.Duration) time.Duration {
	switch {
	case d == math.MaxInt64:
		return 0
	case d <= 0:
		return time.Nanosecond
	}
	return d
}

// Accepted is the result of Accept for one partition.
type Accepted struct {
	// Bytes is one whole batch with base offset 0. It aliases the input unless it was
	// re-compressed.
	Bytes   []byte
	Batches int // 1
	Records int
	// MaxTimestamp is the batch's largest timestamp, in ms since 1970, -1 for none.
	MaxTimestamp int64
	// AppendTime is the broker's time given to the records, in ms since 1970; -1 if the records
	// keep their own timestamps.
	AppendTime int64
	// Codec is the codec that the client used (Produce before version 7 may not use Zstd).
	Codec Codec
}

// Accept validates the bytes that a client sent for one partition and returns the batch to store.
// The bytes must hold exactly one batch (Produce v3 and later). Accept walks the batch to its end,
// inflating it if it is compressed.
//
// Accept may change p in place: it sets the max timestamp in the header to that of the records, as
// Kafka does, or to now under LogAppendTime, and updates the CRC. If the codec differs from the
// topic's, Accept builds a new batch with the same producer, timestamps and offsets. On an error p
// is unchanged. The error is an *Error; any other error is the failure of a compressor, not of the
// client.
//
// Accept does not allocate for an uncompressed batch. If Heavy reports that it may take long, the
// caller must have a place of share.Batches.
func (r *Rules) Accept(p []byte, now time.Time) (Accepted, error) {
	b, err := single(p)
	if err != nil {
		return Accepted{}, err
	}
	if err := r.checkSize(b); err != nil {
		return Accepted{}, err
	}
	if err := b.CheckCRC(); err != nil {
		return Accepted{}, err
	}
	if err := r.checkHeader(b); err != nil {
		return Accepted{}, err
	}
	stored, latest, err := r.walk(b, now.UnixMilli())
	if err != nil {
		return Accepted{}, err
	}
	a := Accepted{Batches: 1, Records: int(b.Records()), AppendTime: -1, Codec: b.Codec()}
	rebuilt := len(stored) > 0 && &stored[0] != &b[0]
	if r.LogAppendTime {
		a.AppendTime = now.UnixMilli()
		stored.Stamp(a.AppendTime)
	} else if rebuilt || stored.MaxTimestamp() != latest {
		stored.setMaxTimestamp(latest)
		stored.seal()
	}
	a.Bytes, a.MaxTimestamp = stored, stored.MaxTimestamp()
	return a, nil
}

// single returns the only batch in p.
func single(p []byte) (Batch, error) {
	if len(p) == 0 {
		return nil, refuse(EmptySet, "a produce request must have one record batch for each partition")
	}
	b, rest, err := Next(p)
	if errors.Is(err, ErrShort) {
		return nil, refuse(EmptySet, "the record batch is longer than the %d bytes that were sent", len(p))
	}
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return b, nil
	}
	if _, _, err := Next(rest); err == nil {
		return nil, refuse(InvalidRecord, "a produce request must have exactly one record batch for each partition")
	}
	return nil, refuse(Corrupt, "%d bytes follow the record batch", len(rest))
}

func (r *Rules) maxBytes() int {
	if r.MaxBatchBytes <= 0 {
		return maxBatch
	}
	return r.MaxBatchBytes
}

// Text and numbers seldom compress better than 30:1.
const (
	inflatedRatio = 100
	minInflated   = 16 << 20
)

func (r *Rules) maxInflated() int64 {
	switch {
	case r.MaxInflatedBytes > 0:
		return r.MaxInflatedBytes
	case r.MaxBatchBytes > 0:
		return min(max(inflatedRatio*int64(r.MaxBatchBytes), minInflated), DefaultMaxInflated)
	}
	return DefaultMaxInflated
}

func (r *Rules) checkSize(b Batch) error {
	if b.Size() > r.maxBytes() {
		return refuse(TooLarge, "the record batch has %d bytes, at most %d are allowed", b.Size(), r.maxBytes())
	}
	return nil
}

// checkHeader validates the header without reading any record.
func (r *Rules) checkHeader(b Batch) error {
	switch {
	case b.BaseOffset() != 0:
		return refuse(InvalidRecord, "the base offset must be 0, it is %d", b.BaseOffset())
	case b.Attributes()&attrUnused != 0:
		return refuse(InvalidRecord, "the attributes %#04x have bits that a producer may not set", uint16(b.Attributes()))
	case !b.Codec().Known():
		return refuse(UnsupportedCodec, "compression codec %d does not exist", int8(b.Codec()))
	case b.Control():
		return refuse(InvalidRecord, "clients are not allowed to write control records")
	case b.LogAppendTime():
		return refuse(InvalidTimestamp, "a producer may not set the timestamp type to LogAppendTime")
	case b.Records() <= 0:
		return refuse(InvalidRecord, "the record count is %d", b.Records())
	case b.LastOffsetDelta() != b.Records()-1:
		return refuse(InvalidRecord, "the last offset delta is %d, the record count %d", b.LastOffsetDelta(), b.Records())
	}
	return r.checkProducer(b)
}

// checkProducer validates the producer's fields together. Without a producer id the others are
// ignored: some clients leave them 0.
func (r *Rules) checkProducer(b Batch) error {
	id := b.ProducerID()
	switch {
	case id < -1:
		return refuse(InvalidRecord, "the producer id is %d", id)
	case id >= FirstBrokerProducer && !r.OfBroker:
		return refuse(InvalidRecord, "the producer id %d is one of those that only brokers use; get one with InitProducerId", id)
	case id >= 0 && b.ProducerEpoch() < 0:
		return refuse(InvalidRecord, "the epoch of producer id %d is %d", id, b.ProducerEpoch())
	case id >= 0 && b.BaseSequence() < 0:
		return refuse(InvalidRecord, "the sequence number of producer id %d is %d", id, b.BaseSequence())
	case b.Transactional() && id < 0:
		return refuse(InvalidRecord, "a transactional batch must have a producer id")
	}
	return nil
}

// walk validates every record. It returns the batch to store (b, or a new one, still without CRC)
// and the largest timestamp of its records.
func (r *Rules) walk(b Batch, now int64) (stored Batch, latest int64, err error) {
	if r.Compression.set && r.Compression.codec != b.Codec() {
		return r.recode(b, now)
	}
	latest, err = r.scan(b, now, nil)
	return b, latest, err
}

// recode is walk with a change of codec. It converts a compressed batch from one codec to the other
// while it validates it, a window at a time.
func (r *Rules) recode(b Batch, now int64) (stored Batch, latest int64, err error) {
	rec, err := r.Compression.recoder(b, r.maxBytes())
	if err != nil {
		return nil, 0, err
	}
	defer rec.release()
	if latest, err = r.scan(b, now, rec); err != nil {
		return nil, 0, err
	}
	if b.Codec() == None {
		if _, err := rec.Write(b.payload()); err != nil {
			return nil, 0, err
		}
	}
	stored, err = rec.finish()
	return stored, latest, err
}

// scan walks over the records of b and writes the inflated bytes to tee.
func (r *Rules) scan(b Batch, now int64, tee io.Writer) (latest int64, err error) {
	var s scanner
	defer s.close()
	if err := s.open(b, Limits{Bytes: r.maxInflated()}, tee); err != nil {
		return 0, err
	}
	var found findings
	latest = noTimestamp
	for i := range s.count {
		h, err := s.next(nil)
		if err != nil {
			return 0, err
		}
		latest = max(latest, h.timestamp)
		r.checkRecord(i, h, now, &found)
	}
	if err := s.end(); err != nil {
		return 0, err
	}
	return latest, found.err(s.count)
}
