package record

import (
	"encoding/binary"
	"iter"
)

// Header is a header of a record. Value is nil if it is null.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is a record of a batch. Key and Value are nil if they are null, and empty, not nil, if
// they are empty.
type Record struct {
	Offset    int64
	Timestamp int64 // ms since 1970; the broker's time in a LogAppendTime batch
	Key       []byte
	Value     []byte
	Headers   Headers
}

// Headers are the headers of a record as the record holds them. A list of them would take 24 times
// as many bytes: a batch of 3 kB may hold 14 million.
type Headers struct {
	n   int
	raw []byte
}

// HeadersOf encodes headers.
func HeadersOf(list ...Header) (h Headers) {
	for _, x := range list {
		h.Add(x)
	}
	return h
}

// Add adds a header. It must not be called for those of a record that was read.
func (h *Headers) Add(x Header) {
	h.n++
	h.raw = append(binary.AppendVarint(h.raw, int64(len(x.Key))), x.Key...) // never null
	h.raw = appendField(h.raw, x.Value)
}

// Len returns their number.
func (h Headers) Len() int { return h.n }

// Size returns the bytes that they take.
func (h Headers) Size() int { return len(h.raw) }

// All returns them in order. The scanner has checked them.
func (h Headers) All() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		s := scanner{cursor: cursor{buf: h.raw}}
		for range h.n {
			if x := s.header(int64(len(h.raw)), true); s.fail != nil || !yield(x) {
				return
			}
		}
	}
}

// Each calls fn with every record of the batch, in order, until fn returns an error, which Each
// returns. The record's slices are valid until fn returns.
//
// Each inflates the batch within limits; for a larger batch it returns an *Error of Kind TooLarge.
// Invalid bytes are also an *Error: Each does not rely on Accept. fn must not inflate another
// batch, nor wait for a client: other goroutines may be waiting for the memory.
//
// Each uses the memory of the largest record and of the codec's window.
func (b Batch) Each(limits Limits, fn func(Record) error) error {
	var s scanner
	defer s.close()
	if err := s.open(b, limits, nil); err != nil {
		return err
	}
	var rec Record
	for range s.count {
		if _, err := s.next(&rec); err != nil {
			return err
		}
		if err := fn(rec); err != nil {
			return err
		}
	}
	return s.end()
}

// FindTimestamp returns the first record with a timestamp of at least ts and an offset of at least
// from, as ListOffsets requires. found is false if there is none. The limits and the errors are
// those of Each.
func (b Batch) FindTimestamp(ts, from int64, limits Limits) (offset, timestamp int64, found bool, err error) {
	if b.MaxTimestamp() < ts || b.LastOffset() < from {
		return 0, 0, false, nil
	}
	return b.find(limits, func(h head, offset int64) bool {
		return h.timestamp >= ts && offset >= from
	})
}

func (b Batch) find(limits Limits, match func(head, int64) bool) (offset, timestamp int64, found bool, err error) {
	var s scanner
	defer s.close()
	if err := s.open(b, limits, nil); err != nil {
		return 0, 0, false, err
	}
	for range s.count {
		h, err := s.next(nil)
		if err != nil {
			return 0, 0, false, err
		}
		if offset := b.BaseOffset() + int64(h.delta); match(h, offset) {
			return offset, h.timestamp, true, nil
		}
	}
	return 0, 0, false, nil
}
