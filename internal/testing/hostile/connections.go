package hostile

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// connectionAttacks need only connections.
func connectionAttacks() []Attack {
	return []Attack{
		{
			Name: "idle-connections", Aim: "5,000 connections, each idle after one ApiVersions",
			Holds: 100 << 20, Keeps: little, Part: 10,
			run: func(ctx context.Context, m *Attacker) error {
				return m.Idle(ctx, 5000)
			},
		},
		{
			Name: "connect-flood", Aim: "four clients connect and close as fast as they can",
			Holds: little, Keeps: little,
			run: func(ctx context.Context, m *Attacker) error {
				return m.each(4, func(int) error {
					for ctx.Err() == nil {
						c, err := m.dial(ctx)
						if err == nil {
							m.note("connection made")
							err = c.reset()
							m.drop(c)
						}
						if err := m.judge(ctx, err); err != nil {
							return err
						}
					}
					return nil
				})
			},
		},
		{
			Name: "versions-flood", Aim: "16 connections send ApiVersions, 16 in flight each, and read the answers",
			Holds: little, Keeps: little,
			run: func(ctx context.Context, m *Attacker) error {
				return m.again(ctx, m.connections(16), func(c *Conn, _, _ int) error { return c.burst(frame(versions()), 64) })
			},
		},
		{
			Name: "unread-versions", Aim: "200 connections send ApiVersions as fast as they can and read nothing",
			Holds: some, Keeps: little, Part: 10,
			run: func(ctx context.Context, m *Attacker) error {
				return m.once(ctx, m.connections(200), func(c *Conn, _ int) error { return c.sendUnread(frame(versions()), 2000) })
			},
		},
	}
}

// Idle opens n connections, scaled to the attacker's part, each of which sends one ApiVersions.
func (m *Attacker) Idle(ctx context.Context, n int) error {
	return m.once(ctx, m.connections(n), func(c *Conn, _ int) error {
		_, err := c.Ask(versions())
		return err
	})
}

func versions() kmsg.Request {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, clientID, "1"
	return req
}

// inFlight is the number of requests that a reading client sends before it reads. Their responses
// fit into its socket.
const inFlight = 16

// burst sends a frame n times and reads as many responses, inFlight at a time.
func (c *Conn) burst(frame []byte, n int) error {
	for ; n > 0; n -= inFlight {
		some := min(n, inFlight)
		for range some {
			if err := c.Send(frame); err != nil {
				return err
			}
		}
		for range some {
			if _, err := c.Receive(); err != nil {
				return err
			}
			c.attacker.note("answered")
		}
	}
	return nil
}

// sendUnread sends a frame n times and reads nothing. The broker may stop reading: sendUnread stops
// when a write has made no progress for a second.
func (c *Conn) sendUnread(frame []byte, n int) error {
	if err := c.narrow(); err != nil {
		return err
	}
	for range n {
		if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if err := c.Send(frame); errors.Is(err, os.ErrDeadlineExceeded) {
			c.attacker.note("no longer read")
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// OpenUnread opens a connection that requests more than its sockets hold and reads nothing. It
// returns when the broker has read no byte for quietSeconds, and the connection stays open until
// ctx ends.
func OpenUnread(ctx context.Context, addr string) error {
	c, err := Dial(ctx, addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	if err := c.narrow(); err != nil {
		return err
	}
	whole := frame(metadataRequest(manyNames))
	// The rest of a frame is sent when the broker was only late: another frame in its place would
	// end the connection.
	for rest, quiet := whole, 0; quiet < quietSeconds; {
		if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		n, err := c.Write(rest)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if quiet++; n > 0 {
			quiet = 0
		}
		if rest = rest[n:]; len(rest) == 0 {
			rest = whole
		}
	}
	return nil
}

// quietSeconds is for how long a broker that reads nothing counts as blocked.
const quietSeconds = 3
