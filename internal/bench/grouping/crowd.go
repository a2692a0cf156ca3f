package grouping

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bench/meter"
)

// dialers bounds the connections that are being made at a time.
const dialers = 64

// crowd is the members of some groups. Each lives on a goroutine of its own, which ends
// with its leave or with the crowd's context.
type crowd struct {
	interval time.Duration // between heartbeats where the broker doesn't say
	fixed    bool          // also where it does
	boards   []*board
	members  []*member
	record   atomic.Pointer[recorder] // where heartbeats are counted; nil: not now
	work     sync.WaitGroup

	mu     sync.Mutex
	failed error // the first member's that can't go on
	fail   context.CancelCauseFunc
}

// recorder counts heartbeats.
type recorder struct {
	window *meter.Window
	lanes  []*meter.Lane // members share them
}

// member is one of a crowd.
type member struct {
	crowd   *crowd
	number  int
	player  player
	caller  *caller
	board   *board
	quit    chan struct{} // closed when it is to leave
	left    chan struct{} // closed when it has
	rejoins int
}

// gather connects members; member i is of group i/perGroup, whose coordinator is at
// addrs. fail is called with the first member's error that can't go on.
func gather(ctx context.Context, fail context.CancelCauseFunc, p Protocol, t *topic, groups, addrs []string, perGroup int) (*crowd, error) {
	c := &crowd{fail: fail, members: make([]*member, len(groups)*perGroup)}
	for range groups {
		c.boards = append(c.boards, newBoard(t.partitions))
	}
	errs := make([]error, dialers)
	var wg sync.WaitGroup
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < len(c.members) && errs[d] == nil; i += dialers {
				c.members[i], errs[d] = c.connect(ctx, p, t, groups[i/perGroup], addrs[i/perGroup], i, c.boards[i/perGroup])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *crowd) connect(ctx context.Context, p Protocol, t *topic, group, addr string, i int, b *board) (*member, error) {
	caller, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &member{crowd: c, number: i, caller: caller, board: b, quit: make(chan struct{}), left: make(chan struct{}),
		player: newPlayer(p, caller, t, group, fmt.Sprintf("%s-member-%d", group, i))}, nil
}

// start lets members live.
func (c *crowd) start(ctx context.Context, members ...*member) {
	for _, m := range members {
		c.work.Go(func() {
			defer close(m.left)
			defer m.caller.close()
			if err := m.live(ctx); err != nil && ctx.Err() == nil {
				c.mu.Lock()
				if c.failed == nil {
					c.failed = err
					c.fail(err)
				}
				c.mu.Unlock()
			}
		})
	}
}

// live joins, sends heartbeats, and leaves in the end.
func (m *member) live(ctx context.Context) error {
	if err := joinPatiently(ctx, m.player); err != nil {
		return err
	}
	m.board.assigned(m.number, m.player.share())
	next := time.NewTimer(0)
	defer next.Stop()
	again := true // one of the new protocol says at once what it has taken over
	for {
		next.Reset(m.wait(again))
		select {
		case <-next.C:
		case <-m.quit:
			err := m.player.leave()
			m.board.left(m.number)
			return err
		case <-ctx.Done():
			return nil
		}
		var err error
		if again, err = m.beat(ctx); err != nil {
			return err
		}
		m.board.assigned(m.number, m.player.share())
	}
}

// wait is until the next heartbeat. Members of a crowd don't send theirs together.
func (m *member) wait(again bool) time.Duration {
	if again {
		return 0
	}
	d := m.player.heartbeat()
	if d == 0 || m.crowd.fixed {
		d = m.crowd.interval
	}
	return d - d/8 + rand.N(d/4+1)
}

// beat sends a heartbeat and joins again where it is told to.
func (m *member) beat(ctx context.Context) (again bool, err error) {
	r := m.crowd.record.Load()
	var began time.Duration
	if r != nil {
		began = r.window.Now()
	}
	again, rejoin, err := m.player.beat()
	if r != nil {
		lane, now := r.lanes[m.number%len(r.lanes)], r.window.Now()
		if err != nil {
			lane.Fail(began, now, failureName(err), 1)
		} else {
			lane.Done(began, now, meter.Amount{Requests: 1})
		}
	}
	switch {
	case err != nil && busy(err):
		return false, nil
	case err != nil:
		return false, err
	case !rejoin:
		return again, nil
	}
	if r != nil {
		m.rejoins++
	}
	return true, joinPatiently(ctx, m.player)
}

// await returns when all groups are at rest.
func (c *crowd) await(ctx context.Context) error {
	for _, b := range c.boards {
		if err := b.await(ctx); err != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("wait for a group to come to rest: %w", err))
		}
	}
	return nil
}

// disband lets everybody leave, and returns when they have.
func (c *crowd) disband() error {
	for _, m := range c.members {
		select {
		case <-m.quit:
		default:
			close(m.quit)
		}
	}
	c.work.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}
