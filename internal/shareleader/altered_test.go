package shareleader

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// lateOpens is a coordinator whose answers to opens are late.
type lateOpens struct {
	Coordinator
	answers []func()
}

func (c *lateOpens) Open(ctx context.Context, items []sharestate.Opening, done func([]sharestate.Opened)) {
	c.Coordinator.Open(ctx, items, func(list []sharestate.Opened) { c.answers = append(c.answers, func() { done(list) }) })
}

// The notification of an alter may overtake the answer to the open of the former state.
func TestAnAlterDuringALoadCountsAtOnce(t *testing.T) {
	late := &lateOpens{}
	check(t, 1, func(w *world) string {
		answer := func() {
			synctest.Wait()
			list := late.answers
			late.answers = nil
			for _, f := range list {
				f()
			}
			synctest.Wait()
		}
		w.put(1, false)
		w.desk.Initialize(w.key, 2, 1)
		a := w.join(w.leader(), "a")
		f := a.begin(1, nil)
		synctest.Wait()
		w.desk.Initialize(w.key, 3, 0)
		w.leader().Changed(w.key, sharestate.Identity{StateEpoch: 3, Created: 1}, -1)
		answer()
		answer()
		return differ(show(f.taken), "0-0:1", f.err, (*kerr.Error)(nil))
	}, func(o *Options) {
		late.Coordinator = o.Coordinator
		o.Coordinator = late
	})
}

// The same without the notification: the members that join after the alter get the records.
func TestAnAlterWithoutANotificationCountsForTheNextMembers(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(2, false)
		a := w.join(w.leader(), "a")
		got := show(a.fetch(10))
		accepted := a.ack(0, 1, window.Accept)
		synctest.Wait()
		a.s.End()
		w.desk.Initialize(w.key, 2, 1)
		f := w.join(w.leader(), "b").begin(10, nil)
		synctest.Wait()
		loads, asked := w.desk.Calls(sharetest.Open), w.desk.Calls(sharetest.Peek)
		w.join(w.leader(), "c").partition() // one more session asks for nothing
		synctest.Wait()
		return differ(got, "0-1:1", accepted, "ok", show(f.taken), "1-1:1", loads, 2, w.desk.Calls(sharetest.Peek), asked)
	})
}

// A member may hold records of a partition that its session has forgotten.
func TestSharePartitionsWithLocksAreNotIdle(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Lock = time.Hour
		w.put(1, false)
		a := w.join(w.leader(), "a")
		got := show(a.fetch(1))
		a.s.Forget([]Named{{w.key.Topic, w.key.Partition}})
		time.Sleep(2 * idleTime)
		accepted := a.ack(0, 0, window.Accept)
		synctest.Wait()
		return differ(got, "0-0:1", accepted, "ok", w.desk.Summary(w.key).Start, 1)
	})
}

// Members without a session are forgotten, also those whose session is older than the window.
func TestMembersAreForgotten(t *testing.T) {
	check(t, 1, func(w *world) string {
		p := w.join(w.leader(), "stays").partition()
		synctest.Wait()
		for i := range 100 {
			c := w.join(w.leader(), fmt.Sprint(i))
			c.partition()
			w.leader().Changed(w.key, sharestate.Identity{}, -1)
			synctest.Wait()
			c.s.End()
		}
		p.lock()
		defer p.unlock()
		stays := p.members["stays"]
		return differ(len(p.members) < 20, true, stays != nil && stays.sessions == 1, true)
	})
}

// A batch of many records is acquired in parts: one acknowledgement can make a run of each record.
func TestTheMemoryOfALargeBatch(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Locks = 2000
		w.put(130_000, false)
		a := w.join(w.leader(), "a")
		got := show(a.fetch(1))
		types := make([]window.AckType, 2000)
		for i := range types {
			types[i] = window.AckType(1 + i%2)
		}
		acked := a.ack(0, 1999, types...)
		synctest.Wait()
		s, _ := a.partition().Stats()
		return differ(got, "0-1999:1", acked, "ok", s.Bytes < 2000*window.RecordBytes, true)
	})
}

// TestARestoreForgetsLeaderEpochs: a state has a later leader epoch than metadata that were
// restored from a copy. The epoch is raised, and the group continues. Metadata that are only late
// are awaited.
func TestARestoreForgetsLeaderEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raised []string
		var w *world
		w = newWorld(t, 1, func(o *Options) {
			o.Raise = func(topic [16]byte, partition, epoch, known int32) {
				w.mu.Lock()
				raised = append(raised, fmt.Sprint(topic == w.key.Topic, partition, epoch, known))
				w.epoch = known + 1000
				w.mu.Unlock()
				v := w.leader().view
				v.mu.Lock()
				v.epoch = known + 1000
				v.log.epochs.Assign(v.epoch, v.log.end)
				v.mu.Unlock()
				w.leader().ring(w)
			}
		})
		defer w.close()
		w.put(4, false)
		w.elect(0, false, 0)
		w.elect(0, false, 0)
		a := w.join(w.leader(), "a")
		a.fetch(4)
		accepted := a.ack(0, 1, window.Accept)
		synctest.Wait()
		expect(t, "accept", accepted, "ok")
		restore := func(epoch int32) {
			w.mu.Lock()
			w.epoch = epoch
			w.mu.Unlock()
			v := w.leader().view
			v.mu.Lock()
			v.epoch = epoch
			v.mu.Unlock()
			w.leader().ring(w)
			synctest.Wait()
		}
		restore(1)
		a.partition()
		time.Sleep(time.Second)
		synctest.Wait()
		requests := func() []string { w.mu.Lock(); defer w.mu.Unlock(); return slices.Clone(raised) }
		expect(t, "raised at once", requests(), "[]")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		expect(t, "raised", requests(), "[true 0 1 2]")
		expect(t, "after the restore", show(a.fetch(10)), "2-3:2")
	})
}
