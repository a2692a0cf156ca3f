package producers

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of an encoded producer without its batches, and of an encoded batch.
const (
	producerLen = 8 + 2 + 1 + 8
	batchLen    = 4 + 4 + 8 + 4 + 8
)

// Append encodes the state below offset end, little endian: the number of producers u32; per
// producer, least recently active first: id i64, epoch i16, seen i64, batch count u8; per batch:
// first and last sequence i32, last offset i64, delta i32, timestamp i64.
func (s *State) Append(b []byte, end int64) []byte {
	le := binary.LittleEndian
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	count := uint32(0)
	for p := s.oldest; p != nil; p = p.newer {
		s.trim(p, Window) // a producer that is idle after a burst has batches that Add would remove
		batches := p.window(p.below(end))
		if len(batches) == 0 {
			continue
		}
		count++
		b = le.AppendUint64(b, uint64(p.id))
		b = le.AppendUint16(b, uint16(batches[0].epoch))
		b = le.AppendUint64(b, uint64(p.seen))
		b = append(b, byte(len(batches)))
		for _, m := range batches {
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

var errShort = errors.New("producer state is truncated")

// Decode replaces the state by the one that Append wrote to b, and returns the rest of b. After an
// error the state is empty.
func (s *State) Decode(b []byte) ([]byte, error) {
	s.ids, s.oldest, s.newest = nil, nil, nil
	if len(b) < 4 {
		return nil, errShort
	}
	count := int(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if count > len(b)/(producerLen+batchLen) {
		return nil, errShort
	}
	for range count {
		p, rest, err := decodeProducer(b)
		if err == nil && s.ids[p.id] != nil {
			err = fmt.Errorf("producer %d is in the producer state twice", p.id)
		}
		if err != nil {
			s.ids, s.oldest, s.newest = nil, nil, nil
			return nil, err
		}
		if s.link(p); len(s.ids) > s.limit() {
			s.forget(s.oldest)
		}
		b = rest
	}
	return b, nil
}

func decodeProducer(b []byte) (*producer, []byte, error) {
	le := binary.LittleEndian
	if len(b) < producerLen {
		return nil, nil, errShort
	}
	p := &producer{id: int64(le.Uint64(b)), seen: int64(le.Uint64(b[10:]))}
	epoch, n := int16(le.Uint16(b[8:])), int(b[18])
	b = b[producerLen:]
	if n > Window || n == 0 || len(b) < n*batchLen {
		return nil, nil, errShort
	}
	for range n {
		m := batch{
			firstSeq: int32(le.Uint32(b)), lastSeq: int32(le.Uint32(b[4:])), lastOffset: int64(le.Uint64(b[8:])),
			delta: int32(le.Uint32(b[16:])), timestamp: int64(le.Uint64(b[20:])), epoch: epoch,
		}
		p.batches = append(p.batches, m)
		b = b[batchLen:]
	}
	return p, b, nil
}
