package hostile

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// connectionAttacks need nothing but connections.
func connectionAttacks() []Attack {
	return []Attack{
		{
			Name: "idle-connections", Aim: "5,000 connections, each idle after one ApiVersions",
			Holds: 100 << 20, Keeps: little, Part: 10,
			run: func(ctx context.Context, m *Mob) error {
				return m.Idle(ctx, 5000)
			},
		},
		{
			Name: "connect-flood", Aim: "four clients connect and close as fast as they can",
			Holds: little, Keeps: little,
			run: func(ctx context.Context, m *Mob) error {
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
			run: func(ctx context.Context, m *Mob) error {
				return m.again(ctx, m.connections(16), func(c *Conn, _, _ int) error { return c.burst(frame(versions()), 64) })
			},
		},
		{
			Name: "unread-versions", Aim: "200 connections send ApiVersions as fast as they can and read nothing",
			Holds: some, Keeps: little, Part: 10,
			run: func(ctx context.Context, m *Mob) error {
				return m.once(ctx, m.connections(200), func(c *Conn, _ int) error { return c.deafly(frame(versions()), 2000) })
			},
		},
	}
}

// Idle opens n connections, as much of that as the mob makes of an attack, each of which asks for ApiVersions once.
func (m *Mob) Idle(ctx context.Context, n int) error {
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

// inFlight is how many requests a client that reads its answers has sent before it does. Their answers fit its socket.
const inFlight = 16

// burst sends a frame n times and reads as many answers, inFlight at a time.
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
			c.mob.note("answered")
		}
	}
	return nil
}

// deafly sends a frame n times over a connection that reads nothing. The broker may stop reading before: nothing more is sent
// once a write has made no progress for a second.
func (c *Conn) deafly(frame []byte, n int) error {
	if err := c.narrow(); err != nil {
		return err
	}
	for range n {
		if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if err := c.Send(frame); errors.Is(err, os.ErrDeadlineExceeded) {
			c.mob.note("no longer read")
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Deaf opens a connection that has requested more than its sockets take and reads nothing. It stays open for as long as ctx.
func Deaf(ctx context.Context, addr string) error {
	c, err := Dial(ctx, addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	c.mob = new(Mob)
	return c.deafly(frame(metadataRequest(manyNames)), 1000)
}
