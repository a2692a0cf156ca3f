// Package producers is the idempotence state of a log: for every producer id
// the last five batches, so that a retry is recognised (KIP-98, KIP-360).
//
// It is a value without locks, clocks or files; the log that owns it guards it,
// stores it in the directory's checkpoint and rebuilds it from batches. Check
// decides, Add remembers; Add is called for every batch that enters the log, also
// at replay.
package producers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/record"
)

// Errors of Check. The broker maps each to the protocol error of its name.
var (
	ErrOutOfOrderSequence   = errors.New("out of order sequence number")
	ErrInvalidProducerEpoch = errors.New("producer epoch is older than the latest one")
)

// Window is how many batches of a producer are remembered. A producer that
// wants no duplicates has at most that many in flight.
const Window = 5

// batch is what is remembered of one batch.
type batch struct {
	firstSeq, lastSeq int32
	lastOffset        int64
	delta             int32 // lastOffset - first offset
	timestamp         int64 // max timestamp
}

// producer is what is known of one producer id.
type producer struct {
	epoch   int16
	n       int8
	batches [Window]batch // the newest n, oldest first
	seen    int64         // wall clock, ms, of the latest batch
}

func (p *producer) last() *batch { return &p.batches[p.n-1] }

// State is the idempotence state of one log.
type State struct {
	ids map[int64]*producer
	// Expiry is how long a producer is remembered after its latest batch
	// (producer.id.expiration.ms).
	Expiry time.Duration
	swept  int64
}

// DefaultExpiry is Kafka's producer.id.expiration.ms.
const DefaultExpiry = 24 * time.Hour

// Duplicate describes the batch that a retry repeats.
type Duplicate struct {
	BaseOffset, LastOffset, Timestamp int64
}

// Len returns how many producers are remembered.
func (s *State) Len() int { return len(s.ids) }

// Check says whether a batch may be appended. dup is true for a repetition of a
// remembered batch; it must not be appended again. A batch without a producer
// id always may. The first batch of an unknown producer is taken as it is.
func (s *State) Check(b record.Batch) (d Duplicate, dup bool, err error) {
	id := b.ProducerID()
	if id < 0 {
		return d, false, nil
	}
	p := s.ids[id]
	if p == nil || p.n == 0 {
		return d, false, nil
	}
	epoch, first, last := b.ProducerEpoch(), b.BaseSequence(), b.LastSequence()
	switch {
	case epoch < p.epoch:
		return d, false, fmt.Errorf("%w: producer %d sent epoch %d, the latest is %d", ErrInvalidProducerEpoch, id, epoch, p.epoch)
	case epoch > p.epoch:
		if first != 0 {
			return d, false, fmt.Errorf("%w: producer %d began epoch %d with sequence %d instead of 0", ErrOutOfOrderSequence, id, epoch, first)
		}
		return d, false, nil
	}
	for i := range p.n {
		if m := &p.batches[i]; m.firstSeq == first && m.lastSeq == last {
			return Duplicate{m.lastOffset - int64(m.delta), m.lastOffset, m.timestamp}, true, nil
		}
	}
	if want := next(p.last().lastSeq); first != want {
		return d, false, fmt.Errorf("%w: producer %d sent sequence %d, expected %d", ErrOutOfOrderSequence, id, first, want)
	}
	return d, false, nil
}

// next is the sequence after seq: it wraps to 0 after 2^31-1.
func next(seq int32) int32 {
	if seq == math.MaxInt32 {
		return 0
	}
	return seq + 1
}

// Add remembers a batch that stands in the log at its offsets.
func (s *State) Add(b record.Batch, now time.Time) {
	id := b.ProducerID()
	if id < 0 || b.Control() {
		return
	}
	if s.ids == nil {
		s.ids = map[int64]*producer{}
	}
	p := s.ids[id]
	if p == nil {
		s.sweep(now.UnixMilli())
		p = &producer{epoch: b.ProducerEpoch()}
		s.ids[id] = p
	}
	if b.ProducerEpoch() != p.epoch {
		p.epoch, p.n = b.ProducerEpoch(), 0
	}
	if p.n == Window {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	p.batches[p.n] = batch{b.BaseSequence(), b.LastSequence(), b.LastOffset(), b.LastOffsetDelta(), b.MaxTimestamp()}
	p.n++
	p.seen = now.UnixMilli()
}

// sweep forgets producers that were silent for Expiry. It looks at all of them
// at most once in a twentieth of that, and only when a new one comes: memory
// grows no other way.
func (s *State) sweep(now int64) {
	expiry := s.Expiry.Milliseconds()
	if expiry <= 0 {
		expiry = DefaultExpiry.Milliseconds()
	}
	if now-s.swept < expiry/20 {
		return
	}
	s.swept = now
	for id, p := range s.ids {
		if now-p.seen > expiry {
			delete(s.ids, id)
		}
	}
}

// CopyFrom makes s remember what o does, with an Expiry of its own.
func (s *State) CopyFrom(o *State) {
	s.ids = make(map[int64]*producer, len(o.ids))
	for id, p := range o.ids {
		c := *p
		s.ids[id] = &c
	}
	s.swept = o.swept
}

// Clear forgets everything.
func (s *State) Clear() { s.ids = nil }

// Size of an encoded producer without its batches, and of a batch.
const (
	producerLen = 8 + 2 + 1 + 8
	batchLen    = 4 + 4 + 8 + 4 + 8
)

// Append encodes what is known of batches below offset end: count u32; per
// producer: id i64, epoch i16, seen i64, batch count u8; per batch: first and
// last sequence i32, last offset i64, delta i32, timestamp i64; little endian.
func (s *State) Append(b []byte, end int64) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	count := uint32(0)
	le := binary.LittleEndian
	for id, p := range s.ids {
		n := 0
		for n < int(p.n) && p.batches[n].lastOffset < end {
			n++
		}
		if n == 0 {
			continue
		}
		count++
		b = le.AppendUint64(b, uint64(id))
		b = le.AppendUint16(b, uint16(p.epoch))
		b = le.AppendUint64(b, uint64(p.seen))
		b = append(b, byte(n))
		for _, m := range p.batches[:n] {
			b = le.AppendUint32(b, uint32(m.firstSeq))
			b = le.AppendUint32(b, uint32(m.lastSeq))
			b = le.AppendUint64(b, uint64(m.lastOffset))
			b = le.AppendUint32(b, uint32(m.delta))
			b = le.AppendUint64(b, uint64(m.timestamp))
		}
	}
	le.PutUint32(b[at:], count)
	return b
}

var errShort = errors.New("producer state is cut short")

// Decode reads what Append wrote into s, replacing it, and returns the rest of b.
func (s *State) Decode(b []byte) ([]byte, error) {
	le := binary.LittleEndian
	if len(b) < 4 {
		return nil, errShort
	}
	count := int(le.Uint32(b))
	b = b[4:]
	if count > len(b)/producerLen {
		return nil, errShort
	}
	s.ids = make(map[int64]*producer, count)
	for range count {
		if len(b) < producerLen {
			return nil, errShort
		}
		id, n := int64(le.Uint64(b)), int(b[18])
		p := &producer{epoch: int16(le.Uint16(b[8:])), seen: int64(le.Uint64(b[10:])), n: int8(n)}
		b = b[producerLen:]
		if n > Window || n == 0 || len(b) < n*batchLen {
			return nil, errShort
		}
		for i := range n {
			p.batches[i] = batch{int32(le.Uint32(b)), int32(le.Uint32(b[4:])), int64(le.Uint64(b[8:])), int32(le.Uint32(b[16:])), int64(le.Uint64(b[20:]))}
			b = b[batchLen:]
		}
		s.ids[id] = p
	}
	return b, nil
}

// LastOffsets returns the last offset of each producer.
func (s *State) LastOffsets() map[int64]int64 {
	m := make(map[int64]int64, len(s.ids))
	for id, p := range s.ids {
		if p.n > 0 {
			m[id] = p.last().lastOffset
		}
	}
	return m
}
