package raftstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// bounds checks what the next leader knows of the former one: it may have been confirmed until a
// time that is not before its last confirmation, and not after it last sent.
func bounds(t *testing.T, next *Store, former uint64, confirmed, last time.Time) {
	t.Helper()
	role, _ := next.Leadership()
	if role.Former != former || role.FormerUntil.Before(confirmed) || role.FormerUntil.After(last) {
		t.Errorf("the former leader is %x, not after %v; want %x, from %v to %v", role.Former, role.FormerUntil, former, confirmed, last)
	}
}

// steady waits until a leader is confirmed, and returns when it was last.
func steady(leader *Store) time.Time {
	time.Sleep(2 * electionTicks * defaultTick)
	return leader.Confirmed()
}

// The next leader knows how long ago the former one was confirmed at the latest, whether that one
// was cut off, has handed over, or hears nothing.
func TestTheNextLeaderKnowsUntilWhenTheFormerOneWasConfirmed(t *testing.T) {
	const round = (heartbeatTicks + 1) * defaultTick
	for name, ends := range map[string]func(*cluster, *Store) (last time.Time){
		"cut off": func(c *cluster, leader *Store) time.Time {
			c.isolate(leader, true)
			return time.Now()
		},
		"handed over": func(_ *cluster, leader *Store) time.Time {
			if err := leader.Resign(context.Background()); err != nil {
				t.Error(err)
			}
			return time.Now()
		},
		"it hears nothing": func(c *cluster, leader *Store) time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.deaf[leader.Member()] = true
			return time.Now().Add(quietTicks*defaultTick + round)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stores := voters(t, 3, nil)
				defer c.close(t)
				leader, others := ready(t, stores...)
				if role, _ := leader.Leadership(); role.Former != 0 {
					t.Errorf("the first leader knows a former one: %+v", role)
				}
				confirmed := steady(leader)
				last := ends(c, leader)
				next, _ := ready(t, others...)
				if took := time.Since(last); took > 10*electionTicks*defaultTick { // votes may be split a few times
					t.Errorf("the election took %v", took)
				}
				bounds(t, next, leader.Member(), confirmed, last)
			})
		})
	}
}

// A member that was restarted does not know what its former process has answered.
func TestARestartedVoterTellsOnlyOfItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disks []vfs.FS
		c, stores := voters(t, 3, func(_ int, fsys vfs.FS) vfs.FS {
			disks = append(disks, fsys)
			return fsys
		})
		defer c.close(t)
		leader, others := ready(t, stores...)
		confirmed := steady(leader)
		c.isolate(leader, true)
		time.Sleep(defaultTick / 2)
		var again []*Store
		for i, s := range stores {
			if s == leader {
				continue
			}
			must.OK(t, s.Close())
			again = append(again, c.add(t, disks[i]))
		}
		restarted := time.Now()
		next, _ := ready(t, again...)
		bounds(t, next, 0, confirmed, restarted)
		if role, _ := next.Leadership(); role.FormerUntil.Before(restarted) {
			t.Errorf("a voter of %d told of the time before its start, %v: %v", len(others), restarted, role.FormerUntil)
		}
	})
}

// A leader that leads again knows of no other one.
func TestALeaderThatLeadsAgainHasNoFormerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 1, nil)
		defer c.close(t)
		began := time.Now()
		leader, _ := ready(t, stores...)
		bounds(t, leader, 0, began, time.Now())
		role, _ := leader.Leadership()
		steady(leader)
		if later, _ := leader.Leadership(); later.FormerUntil != role.FormerUntil {
			t.Errorf("the bound moved from %v to %v", role.FormerUntil, later.FormerUntil)
		}
	})
}
