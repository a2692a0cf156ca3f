package producers

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/record"
)

// Sizes of an encoded producer without its batches, of a batch, of the transactions of a producer,
// and of one that ended.
const (
	producerLen     = 8 + 2 + 1 + 8
	batchLen        = 4 + 4 + 8 + 4 + 8
	transactionsLen = 4 + 8 + 8 + 8 + 1 + 4
	decidedLen      = 8 + 8
)

// hasTransactions is a bit of the batch count: the transactions of the producer follow.
const hasTransactions = 0x80

// Append encodes the state at offset end, little endian: the number of producers u32; per producer,
// least recently active first: id i64, epoch i16, seen i64, batch count u8.
//
// If the count has the bit 0x80, the producer's transactions follow: largest coordinator epoch i32,
// first offset and beginning of the open one i64, offset of the last marker i64, its type i8, the
// number of those that ended and whose markers may not be committed u32; per such one: its first
// offset and that of its marker i64. Then, per batch: first and last sequence i32, last offset i64,
// delta i32, timestamp i64.
//
// end must be the offset of MarkSynced, or not below that of MarkDurable.
func (s *State) Append(b []byte, end int64) []byte {
	le := binary.LittleEndian
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	count := uint32(0)
	then := s.transactions(end)
	var decided map[*producer][]*span
	for _, x := range s.decided {
		if x.last < end {
			if decided == nil {
				decided = map[*producer][]*span{}
			}
			decided[x.p] = append(decided[x.p], x)
		}
	}
	for p := s.oldest; p != nil; p = p.newer {
		s.trim(p, Window) // a producer that is idle after a burst has batches that Add would remove
		t, earlier := then[p]
		if !earlier {
			t = p.now()
		}
		batches := p.window(p.below(end))
		epoch, head := t.epoch, byte(0)
		switch {
		case len(batches) == 0:
		case batches[0].epoch < epoch:
			batches = nil // a marker has begun the next epoch
		default:
			epoch = batches[0].epoch
		}
		if t != noTransaction {
			head = hasTransactions
		} else if len(batches) == 0 {
			continue
		}
		count++
		b = le.AppendUint64(b, uint64(p.id))
		b = le.AppendUint16(b, uint16(epoch))
		b = le.AppendUint64(b, uint64(p.seen))
		b = append(b, head|byte(len(batches)))
		if head != 0 {
			b = t.append(b, decided[p])
		}
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

func (t *transaction) append(b []byte, decided []*span) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(t.coordinator))
	b = le.AppendUint64(b, uint64(t.first))
	b = le.AppendUint64(b, uint64(t.since))
	b = le.AppendUint64(b, uint64(t.marker))
	b = append(b, byte(t.kind))
	b = le.AppendUint32(b, uint32(len(decided)))
	for _, x := range decided {
		b = le.AppendUint64(b, uint64(x.first))
		b = le.AppendUint64(b, uint64(x.last))
	}
	return b
}

var (
	errShort = errors.New("producer state is truncated")
	errTxn   = errors.New("producer state has an impossible transaction")
)

// Decode replaces the state by the one that Append wrote to b, and returns the rest of b. After an
// error the state is empty.
func (s *State) Decode(b []byte) ([]byte, error) {
	s.clear()
	if len(b) < 4 {
		return nil, errShort
	}
	count := int(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if count > len(b)/(producerLen+min(batchLen, transactionsLen)) {
		return nil, errShort
	}
	for range count {
		rest, err := s.decodeProducer(b)
		if err != nil {
			s.clear()
			return nil, err
		}
		b = rest
	}
	slices.SortFunc(s.decided, func(a, b *span) int { return cmp.Compare(a.last, b.last) })
	for n := len(s.ids); n > 0 && len(s.ids) > s.limit(); n-- {
		s.retire()
	}
	return b, nil
}

// clear forgets everything but the bounds.
func (s *State) clear() {
	*s = State{Expiry: s.Expiry, Limit: s.Limit, Everywhere: s.Everywhere, durableEnd: s.durableEnd, tracksDurable: s.tracksDurable}
}

func (s *State) decodeProducer(b []byte) ([]byte, error) {
	le := binary.LittleEndian
	if len(b) < producerLen {
		return nil, errShort
	}
	p := &producer{id: int64(le.Uint64(b)), seen: int64(le.Uint64(b[10:]))}
	if s.ids[p.id] != nil {
		return nil, fmt.Errorf("producer %d is in the producer state twice", p.id)
	}
	epoch, head := int16(le.Uint16(b[8:])), b[18]
	n := int(head &^ hasTransactions)
	b = b[producerLen:]
	s.list(p)
	if head&hasTransactions != 0 {
		rest, err := s.decodeTransactions(p, epoch, b)
		if err != nil {
			return nil, err
		}
		b = rest
	}
	if n > Window || n == 0 && p.txn == nil || len(b) < n*batchLen {
		return nil, errShort
	}
	for range n {
		m := batch{
			firstSeq: int32(le.Uint32(b)), lastSeq: int32(le.Uint32(b[4:])), lastOffset: int64(le.Uint64(b[8:])),
			delta: int32(le.Uint32(b[16:])), timestamp: int64(le.Uint64(b[20:])), epoch: epoch,
		}
		p.batches = append(p.batches, m)
		b = b[batchLen:]
	}
	return b, nil
}

// decodeTransactions decodes the transactions of a producer with this epoch.
func (s *State) decodeTransactions(p *producer, epoch int16, b []byte) ([]byte, error) {
	le := binary.LittleEndian
	if len(b) < transactionsLen {
		return nil, errShort
	}
	t := transaction{coordinator: int32(le.Uint32(b)), first: int64(le.Uint64(b[4:])), since: int64(le.Uint64(b[12:])),
		marker: int64(le.Uint64(b[20:])), epoch: epoch, kind: record.ControlType(int8(b[28]))}
	n := int(le.Uint32(b[29:]))
	if b = b[transactionsLen:]; n > len(b)/decidedLen {
		return nil, errShort
	}
	if t.first < -1 || t.marker < -1 || t.kind < record.NoControl || t.kind > record.Commit || t == noTransaction {
		return nil, errTxn
	}
	s.adopt(p, t)
	for range n {
		x := &span{p: p, first: int64(le.Uint64(b)), last: int64(le.Uint64(b[8:])), since: p.seen}
		if x.first < 0 || x.last < x.first {
			return nil, errTxn
		}
		s.link(anySpan, x)
		p.pin(1)
		s.decided = append(s.decided, x)
		b = b[decidedLen:]
	}
	return b, nil
}
