package record

import (
	"encoding/binary"
	"math"
)

// NoHorizon makes Rewrite keep the batch's delete horizon, if it has one.
const NoHorizon int64 = -1

// Empty returns the batch without its records. Offsets, epochs, producer, sequence, largest
// timestamp and kind stay, so that readers can determine the state of the producer. The horizon is
// removed, and the first timestamp becomes -1, as in Kafka.
func (b Batch) Empty() Batch {
	e := append(make(Batch, 0, HeaderSize), b[:HeaderSize]...)
	e.setLength()
	binary.BigEndian.PutUint16(e[atAttributes:], uint16(b.Attributes()&^(attrCodec|attrHorizon)))
	e.setFirstTimestamp(noTimestamp)
	e.setRecords(0)
	e.seal()
	return e
}

// Rewrite returns the batch with the records for which keep returns true; keep receives the
// position of a record in the batch, from 0. At least one record must be kept. Everything else
// stays, including the codec, except the number of records and the largest timestamp. A horizon
// other than NoHorizon becomes the batch's delete horizon, in ms since 1970.
//
// The limits and the errors are those of Each. For a batch larger than 2 GiB the error is an
// *Error of Kind TooLarge.
func (b Batch) Rewrite(limits Limits, horizon int64, keep func(i int32) bool) (Batch, error) {
	c, err := CompressWith(b.Codec(), b.Codec().defaultLevel())
	if err != nil {
		return nil, err
	}
	rec, err := c.recoder(b, maxBatch)
	if err != nil {
		return nil, err
	}
	defer rec.release()
	w := rewriter{out: rec, first: b.FirstTimestamp(), latest: noTimestamp, buf: make([]byte, 0, min(len(b), rewriteStep))}
	if horizon != NoHorizon {
		w.first = horizon
	}
	if err := w.copy(b, limits, keep); err != nil {
		return nil, err
	}
	if w.count == 0 {
		return nil, refuse(EmptySet, "no record is left")
	}
	n, err := rec.finish()
	if err != nil {
		return nil, err
	}
	if horizon != NoHorizon {
		binary.BigEndian.PutUint16(n[atAttributes:], uint16(n.Attributes()|attrHorizon))
	}
	n.setFirstTimestamp(w.first)
	if !b.LogAppendTime() {
		n.setMaxTimestamp(w.latest)
	}
	n.setRecords(w.count)
	n.seal()
	return n, nil
}

// rewriter copies records from one batch to another.
type rewriter struct {
	out    *recoder
	first  int64 // base of the timestamp deltas
	latest int64
	count  int32
	buf    []byte
}

// rewriteStep is how many bytes of records are written to a compressor at once.
const rewriteStep = 32 << 10

func (w *rewriter) copy(b Batch, limits Limits, keep func(i int32) bool) error {
	var s scanner
	defer s.close()
	if err := s.open(b, limits, nil); err != nil {
		return err
	}
	var r Record
	for i := range s.count {
		h, err := s.next(&r)
		if err != nil {
			return err
		}
		if !keep(i) {
			continue
		}
		if err := w.record(b, &r, h); err != nil {
			return err
		}
	}
	if err := s.end(); err != nil {
		return err
	}
	return w.flush()
}

func (w *rewriter) record(b Batch, r *Record, h head) error {
	// Under LogAppendTime the records' own deltas are meaningless, but they stay.
	at := b.FirstTimestamp() + h.timeDelta
	var ok bool
	if w.buf, ok = appendRecord(w.buf, at-w.first, h.delta, r.Key, r.Value, r.Headers); !ok {
		return refuse(TooLarge, "a record is larger than a batch can be")
	}
	w.latest = max(w.latest, at)
	if w.count == math.MaxInt32 {
		return refuse(TooLarge, "the batch has too many records")
	}
	w.count++
	if len(w.buf) >= rewriteStep {
		return w.flush()
	}
	return nil
}

func (w *rewriter) flush() error {
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// defaultLevel returns the codec's default level.
func (c Codec) defaultLevel() int {
	l := DefaultLevels()
	switch c {
	case Gzip:
		return l.Gzip
	case Lz4:
		return l.Lz4
	case Zstd:
		return l.Zstd
	}
	return 0
}

func (b Batch) setFirstTimestamp(ms int64) {
	binary.BigEndian.PutUint64(b[atFirstTimestamp:], uint64(ms))
}

func (b Batch) setRecords(n int32) {
	binary.BigEndian.PutUint32(b[atRecords:], uint32(n))
}
