package deadletter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/record"
)

// request asks the leader of a target to append a batch of a producer id.
type request struct {
	Target
	producer int64
	// after is the offset of the last batch that the sender knows, -1: none. batch follows it.
	after int64
	batch record.Batch
}

// answer is what the leader answers. An error is one of the call.
type answer struct {
	Last
	// appended: Last is the batch of the request. Otherwise the sender does not know it.
	appended bool
}

// wireFormat is the first byte of requests and answers. uvarint and varint are those of package
// encoding/binary:
//
//	request  version u8 | topic id 16 | partition uvarint | producer id varint |
//	         offset of the last batch known varint | length of the batch uvarint | batch
//	answer   version u8 | appended u8 | offset varint | sequence varint | leader varint |
//	         number of letters uvarint | for each: offset varint, leader epoch varint
const wireFormat = 2

func (q *request) encode() []byte {
	p := append([]byte{wireFormat}, q.Topic[:]...)
	p = binary.AppendUvarint(p, uint64(q.Partition))
	p = binary.AppendVarint(p, q.producer)
	p = binary.AppendVarint(p, q.after)
	return bytesio.Append(p, []byte(q.batch))
}

// version reads the first byte of a request or an answer.
func version(r *bytesio.Reader) {
	if v := r.Byte(); v != wireFormat && r.Err() == nil {
		r.Fail(fmt.Errorf("version %d, this broker knows %d; upgrade the older broker", v, wireFormat))
	}
}

// decodeRequest decodes a request. Its batch is a copy.
func decodeRequest(p []byte) (*request, error) {
	r := bytesio.NewReader(p)
	version(&r)
	q := &request{Target: Target{Topic: r.ID(), Partition: int32(r.UvarintTo(math.MaxInt32))}}
	q.producer = r.Varint(record.FirstBrokerProducer, math.MaxInt64)
	q.after = r.Varint(-1, math.MaxInt64)
	q.batch = r.Bytes()
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("a request about dead letters: %w", err)
	}
	b, rest, err := record.Next(q.batch)
	if err != nil || len(rest) > 0 || b.ProducerID() != q.producer {
		return nil, errors.Join(errors.New("a request about dead letters has no batch of its producer"), err)
	}
	return q, nil
}

func (a *answer) encode() []byte {
	p := []byte{wireFormat, 0}
	if a.appended {
		p[1] = 1
	}
	p = binary.AppendVarint(p, a.Offset)
	p = binary.AppendVarint(p, int64(a.Sequence))
	p = binary.AppendVarint(p, int64(a.Leader))
	p = binary.AppendUvarint(p, uint64(len(a.Letters)))
	for _, l := range a.Letters {
		p = binary.AppendVarint(binary.AppendVarint(p, l.Offset), int64(l.Epoch))
	}
	return p
}

func decodeAnswer(p []byte) (a answer, err error) {
	r := bytesio.NewReader(p)
	version(&r)
	a.appended = r.Byte() == 1
	a.Offset = r.Varint(-1, math.MaxInt64)
	a.Sequence, a.Leader = int32(r.Varint(-1, math.MaxInt32)), int32(r.Varint(-1, math.MaxInt32))
	for range r.Count(2) {
		a.Letters = append(a.Letters, Letter{r.Varint(0, math.MaxInt64), int32(r.Varint(-1, math.MaxInt32))})
	}
	if err := r.End(); err != nil {
		return answer{}, fmt.Errorf("an answer about dead letters: %w", err)
	}
	return a, nil
}
