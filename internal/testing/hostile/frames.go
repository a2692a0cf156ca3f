package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
)

// frameAttacks send frames that differ from what they announce.
func frameAttacks() []Attack {
	return []Attack{
		{
			Name: "announced-frames", Aim: "three connections each announce a Produce and a Metadata of 100 MiB and send 12 bytes",
			Holds: little, Keeps: little, Part: 100,
			run: func(ctx context.Context, m *Attacker) error {
				return m.once(ctx, m.connections(6), func(c *Conn, i int) error {
					if i%2 == 0 {
						return c.Send(announced(100<<20, kmsg.Produce.Int16(), 3))
					}
					return c.Send(announced(100<<20, kmsg.Metadata.Int16(), 4))
				})
			},
		},
		{
			Name: "many-announced-frames", Aim: "200 connections announce a Produce of 1 MB each and send 12 bytes",
			Holds: some, Keeps: little, Part: 100,
			run: func(ctx context.Context, m *Attacker) error {
				return m.once(ctx, m.connections(200), func(c *Conn, _ int) error {
					return c.Send(announced(1_000_000, kmsg.Produce.Int16(), 3))
				})
			},
		},
		{
			Name: "trickled-frames", Aim: "a request of every API announces 1 MB, and sends 64 KiB and then a byte every 100 ms",
			Holds: some, Keeps: little,
			run: trickle,
		},
		{
			Name: "claimed-counts", Aim: "every API in every version, with bodies that claim huge lengths and counts",
			Holds: some, Keeps: little, Part: 100,
			run: claim,
		},
	}
}

const trickled = 1_000_000

func trickle(ctx context.Context, m *Attacker) error {
	return m.once(ctx, m.connections(2*kmsg.MaxKey), func(c *Conn, i int) error {
		key := int16(i % kmsg.MaxKey)
		version := int16(0)
		if req := kmsg.RequestForKey(key); req != nil {
			version = req.MaxVersion()
		}
		if err := c.Send(append(announced(trickled, key, version), make([]byte, 64<<10)...)); err != nil {
			return err
		}
		for ctx.Err() == nil {
			pause.Wait(ctx.Done(), 100*time.Millisecond)
			if err := c.Send([]byte{0}); err != nil {
				return err
			}
		}
		return nil
	})
}

// claims returns bodies of only large, only small, only negative, or random integers.
func claims(random *rand.Rand) [][]byte {
	const size = 4 << 10
	anything := make([]byte, size)
	for i := range anything {
		anything[i] = byte(random.Uint32())
	}
	return [][]byte{
		bytes.Repeat([]byte{0x7f}, size),
		bytes.Repeat([]byte{0xff}, size),
		make([]byte, size),
		bytes.Repeat([]byte{0xff, 0xff, 0x03}, size/3),
		anything,
	}
}

func claim(ctx context.Context, m *Attacker) error {
	return m.again(ctx, m.connections(kmsg.MaxKey+1), func(c *Conn, key, turn int) error {
		random := rand.New(rand.NewPCG(uint64(key), uint64(turn)))
		version := 0
		if req := kmsg.RequestForKey(int16(key)); req != nil {
			version = random.IntN(int(req.MaxVersion()) + 1)
		}
		bodies := claims(random)
		// No client id, and no tags of a flexible header, where the body of other versions begins.
		p := append(announced(0, int16(key), int16(version)), 0xff, 0xff, 0)
		p = append(p, bodies[random.IntN(len(bodies))]...)
		binary.BigEndian.PutUint32(p, uint32(len(p)-4))
		if err := c.Send(p); err != nil {
			return err
		}
		if random.IntN(2) == 0 {
			return nil // the next request follows at once
		}
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			return err
		}
		if _, err := c.Receive(); err != nil {
			return err
		}
		m.note("answered")
		return c.SetReadDeadline(time.Time{})
	})
}
