package grouping

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// dialers is the number of connections that are opened concurrently.
const dialers = 64

// memberSet is the members of some groups. Each has its own goroutine, which ends when it leaves or
// when the context ends.
type memberSet struct {
	interval   time.Duration // between heartbeats, if the broker does not set it
	fixed      bool          // use interval even if the broker sets it
	states     []*groupState
	members    []*member
	heartbeats atomic.Pointer[heartbeatRecorder] // counts heartbeats; nil when they are not counted
	work       sync.WaitGroup

	mu     sync.Mutex
	failed error // the first error that a member cannot continue after
	fail   context.CancelCauseFunc
}

// heartbeatRecorder counts heartbeats.
type heartbeatRecorder struct {
	window    *meter.Window
	recorders []*meter.Recorder // shared by the members
}

// member is one member of a group.
type member struct {
	all     *memberSet
	number  int
	player  player
	caller  *wire.Caller
	state   *groupState
	quit    chan struct{} // closed to make it leave
	left    chan struct{} // closed when it has left
	rejoins int
}

// gather connects members; member i belongs to group i/perGroup, whose coordinator is at addrs. It
// calls fail with the first error that a member cannot continue after.
func gather(
	ctx context.Context,
	fail context.CancelCauseFunc,
	p Protocol,
	t *topic,
	groups, addrs []string,
	perGroup int,
) (*memberSet, error) {
	c := &memberSet{fail: fail, members: make([]*member, len(groups)*perGroup)}
	for range groups {
		c.states = append(c.states, newGroupState(t.partitions))
	}
	errs := make([]error, dialers)
	var wg sync.WaitGroup
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < len(c.members) && errs[d] == nil; i += dialers {
				c.members[i], errs[d] = c.connect(ctx, p, t, groups[i/perGroup], addrs[i/perGroup], i, c.states[i/perGroup])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *memberSet) connect(ctx context.Context, p Protocol, t *topic, group, addr string, i int, b *groupState) (*member, error) {
	caller, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &member{all: c, number: i, caller: caller, state: b, quit: make(chan struct{}), left: make(chan struct{}),
		player: newPlayer(p, caller, t, group, fmt.Sprintf("%s-member-%d", group, i))}, nil
}

// start starts members.
func (c *memberSet) start(ctx context.Context, members ...*member) {
	for _, m := range members {
		c.work.Go(func() {
			defer close(m.left)
			defer m.caller.Close()
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

// live joins, sends heartbeats, and leaves at the end.
func (m *member) live(ctx context.Context) error {
	if err := joinPatiently(ctx, m.player); err != nil {
		return err
	}
	m.state.assigned(m.number, m.player.share())
	next := time.NewTimer(0)
	defer next.Stop()
	again := true // in the new protocol a member confirms its assignment at once
	for {
		next.Reset(m.wait(again))
		select {
		case <-next.C:
		case <-m.quit:
			err := m.player.leave()
			m.state.left(m.number)
			return err
		case <-ctx.Done():
			return nil
		}
		var err error
		if again, err = m.beat(ctx); err != nil {
			return err
		}
		m.state.assigned(m.number, m.player.share())
	}
}

// wait returns the time until the next heartbeat. It is random, so that members do not send
// together.
func (m *member) wait(again bool) time.Duration {
	if again {
		return 0
	}
	d := m.player.heartbeat()
	if d == 0 || m.all.fixed {
		d = m.all.interval
	}
	return d - d/8 + rand.N(d/4+1)
}

// beat sends a heartbeat and rejoins if the broker asks for it.
func (m *member) beat(ctx context.Context) (again bool, err error) {
	r := m.all.heartbeats.Load()
	var began time.Duration
	if r != nil {
		began = r.window.Now()
	}
	again, rejoin, err := m.player.beat()
	if r != nil {
		recorder, now := r.recorders[m.number%len(r.recorders)], r.window.Now()
		if err != nil {
			recorder.Fail(began, now, load.FailureName(err), 1)
		} else {
			recorder.Done(began, now, meter.Amount{Requests: 1})
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

// await returns when all groups are stable.
func (c *memberSet) await(ctx context.Context) error {
	for _, b := range c.states {
		if err := b.await(ctx); err != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("wait for a group to become stable: %w", err))
		}
	}
	return nil
}

// disband makes all members leave, and returns when they have left.
func (c *memberSet) disband() error {
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
