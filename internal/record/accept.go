package record

import (
	"errors"
	"io"
	"math"
	"time"
)

// Rules is what a topic asks of a batch that a client sends. It is built once per
// version of the topic's configuration and read by any number of goroutines.
type Rules struct {
	// MaxBatchBytes bounds the batch as it is sent and as it is stored
	// (max.message.bytes); 0: only the format's 2 GiB do.
	MaxBatchBytes int
	// MaxInflatedBytes bounds what a compressed batch inflates to; 0: inflatedRatio times
	// MaxBatchBytes, at least leastInflated and at most DefaultMaxInflated. Kafka has no
	// such bound, and no defence.
	MaxInflatedBytes int64
	// Compression is the codec to store with (compression.type).
	Compression Compression
	// LogAppendTime gives records the broker's time (message.timestamp.type).
	LogAppendTime bool
	// TimestampBefore and TimestampAfter say how far a CreateTime timestamp may be
	// from the broker's time (message.timestamp.before.max.ms, .after.max.ms); 0:
	// any. TimestampLimit makes them from a config.
	TimestampBefore, TimestampAfter time.Duration
	// RequireKeys refuses records without a key (cleanup.policy has compact).
	RequireKeys bool
	// AllowTransactional lets transactional batches in.
	AllowTransactional bool
}

// TimestampLimit makes a limit for Rules from a config, in which 0 allows no
// difference at all, and the largest Duration any.
func TimestampLimit(d time.Duration) time.Duration {
	switch {
	case d == math.MaxInt64:
		return 0
	case d <= 0:
		return time.Nanosecond
	}
	return d
}

// Accepted is what came of the bytes a client sent for one partition.
type Accepted struct {
	// Bytes is one whole batch with base offset 0. It aliases the input unless it
	// was re-compressed.
	Bytes   []byte
	Batches int // 1
	Records int
	// MaxTimestamp is that of the batch, in ms since 1970, -1 for none.
	MaxTimestamp int64
	// AppendTime is the broker's time that the records were given, in ms since
	// 1970; -1 when they keep their own.
	AppendTime int64
	// Codec is the one the client used (Produce before version 7 may not use Zstd).
	Codec Codec
}

// Accept checks everything about the bytes that a client sent for one partition,
// and makes of them what is to be stored. They hold exactly one batch (Produce v3
// and later), which is walked to its end, inflated where it is compressed.
//
// p may be changed in place: the max timestamp in the header becomes what the
// records say, as in Kafka, or now under LogAppendTime, and the CRC follows. A
// batch with another codec than the topic's is built anew; producer, timestamps
// and offsets stay. With an error p is as it was. The error is an *Error; any
// other would be a compressor's failure, and not the client's.
//
// A plain batch is accepted without allocating.
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

// single returns the one batch that p must hold.
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
	leastInflated = 16 << 20
)

func (r *Rules) maxInflated() int64 {
	switch {
	case r.MaxInflatedBytes > 0:
		return r.MaxInflatedBytes
	case r.MaxBatchBytes > 0:
		return min(max(inflatedRatio*int64(r.MaxBatchBytes), leastInflated), DefaultMaxInflated)
	}
	return DefaultMaxInflated
}

func (r *Rules) checkSize(b Batch) error {
	if b.Size() > r.maxBytes() {
		return refuse(TooLarge, "the record batch has %d bytes, at most %d are allowed", b.Size(), r.maxBytes())
	}
	return nil
}

// checkHeader checks what the header says, before any record is looked at.
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

// checkProducer checks that the producer's fields go together. Without a producer
// id the others mean nothing: some clients leave them 0.
func (r *Rules) checkProducer(b Batch) error {
	id := b.ProducerID()
	switch {
	case id < -1:
		return refuse(InvalidRecord, "the producer id is %d", id)
	case id >= 0 && b.ProducerEpoch() < 0:
		return refuse(InvalidRecord, "the epoch of producer id %d is %d", id, b.ProducerEpoch())
	case id >= 0 && b.BaseSequence() < 0:
		return refuse(InvalidRecord, "the sequence number of producer id %d is %d", id, b.BaseSequence())
	case b.Transactional() && id < 0:
		return refuse(InvalidRecord, "a transactional batch must have a producer id")
	case b.Transactional() && !r.AllowTransactional:
		return refuse(Transactional, "transactions are not supported")
	}
	return nil
}

// walk checks every record, and returns the batch to store (b, or one built anew,
// still without CRC) and the greatest timestamp of its records.
func (r *Rules) walk(b Batch, now int64) (stored Batch, latest int64, err error) {
	if r.Compression.set && r.Compression.codec != b.Codec() {
		return r.recode(b, now)
	}
	latest, err = r.scan(b, now, nil)
	return b, latest, err
}

// recode is walk with a change of codec. A compressed batch goes from one codec
// to the other while it is checked, a window at a time.
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

// scan walks over the records of b; tee gets what is inflated on the way.
func (r *Rules) scan(b Batch, now int64, tee io.Writer) (latest int64, err error) {
	var s scanner
	defer s.close()
	if err := s.open(b, r.maxInflated(), tee); err != nil {
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
