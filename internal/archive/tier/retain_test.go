package tier

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The age of copied records whose timestamps are not believable is the time since they were
// written, as on a local disk.
func TestRetentionOfTimestampsThatAreNotBelievable(t *testing.T) {
	for name, ts := range map[string]int64{"none": -1, "in years": time.Now().Add(10000 * time.Hour).UnixMilli()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sync", nil)
			b := w.brokers[0]
			b.stamp = func() int64 { return ts }
			w.conf.TimestampAfter, w.conf.Retention = time.Hour, 4*time.Hour
			w.lone(1, true)
			w.add(20)
			b.copyAll()
			must.OK(t, b.healthy())
			x := w.tier()
			if x.Start != 0 || x.End < 40 {
				t.Errorf("before retention.ms: %+v", x)
			}
			w.conf.Retention = time.Nanosecond
			b.copyAll()
			must.OK(t, b.healthy())
			if y := w.tier(); y.Start < x.End || !y.Empty() {
				t.Errorf("after retention.ms: %+v", y)
			}
		})
	}
}

// What retention has found counts for the settings of now.
func TestRetentionFollowsSettings(t *testing.T) {
	for name, lower := range map[string]func(*configdef.Topic){
		"retention.ms":    func(c *configdef.Topic) { c.Retention = time.Hour },
		"retention.bytes": func(c *configdef.Topic) { c.RetentionBytes = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sync", nil)
			b := w.brokers[0]
			b.stamp = func() int64 { return time.Now().Add(-2 * time.Hour).UnixMilli() }
			w.conf.TimestampAfter, w.conf.Retention, w.conf.RetentionBytes = time.Hour, 100*time.Hour, 1<<30
			w.lone(1, true)
			w.add(20)
			for range 2 {
				b.copyAll()
			}
			x := w.tier()
			if must.OK(t, b.healthy()); x.Start != 0 || x.Empty() {
				t.Errorf("before: %+v", x)
			}
			lower(&w.conf)
			b.copyAll()
			must.OK(t, b.healthy())
			if y := w.tier(); y.Start < x.End {
				t.Errorf("after: %+v", y)
			}
		})
	}
}

// What retention or a client has deleted stays deleted if the next leader has it on its disk.
func TestTheLogStartNeverMovesBack(t *testing.T) {
	for name, remove := range map[string]func(*world){
		"retention": func(w *world) {
			w.conf.RetentionBytes = 10 << 10
			w.brokers[0].copyAll()
			w.brokers[0].retain()
		},
		"copied records are deleted":              func(w *world) { w.tryDelete(20) },
		"records are deleted that are not copied": func(w *world) { w.tryDelete(int64(len(w.values))) },
		"all is deleted, and the topic not copied any longer": func(w *world) {
			w.tryDelete(30)
			w.conf.Remote, w.conf.DropRemote = false, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sync", nil)
			w.produce(12, 3)
			w.brokers[0].copyAll()
			remove(w)
			must.OK(t, w.brokers[0].healthy())
			w.gone = w.brokers[0].partition().Ends().LogStart
			if w.gone == 0 {
				t.Fatal("nothing was deleted")
			}
			w.fail(2, 1)
			b := w.brokers[1]
			b.roleChanged = func(p *replica.Partition) {
				if start := p.Ends().LogStart; start != w.gone {
					t.Errorf("when it begins to lead, the log begins at %d instead of %d", start, w.gone)
				}
			}
			must.OK(t, b.follow())
			if start := b.partition().Ends().LogStart; start != w.gone {
				t.Errorf("the log begins at %d, and with the leader before at %d", start, w.gone)
			}
			w.follow()
			w.replicate()
			must.OK(t, b.check())
			if found, err := b.partition().ListOffset(0, -1, false); err != nil || found.Offset >= 0 && found.Offset < w.gone {
				t.Errorf("a search by time finds a deleted record: %+v, %v", found, err)
			}
			b.copyAll()
			must.OK(t, errors.Join(b.healthy(), b.check()))
		})
	}
}

// tryDelete deletes records; the other broker does not learn of it.
func (w *world) tryDelete(to int64) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Millisecond)
	defer cancel()
	list := []replica.Deletion{{Topic: tp.Topic, Offset: to}}
	w.leader().m.DeleteRecords(ctx, list)
	if !errors.Is(list[0].Err, replica.ErrTimedOut) {
		w.t.Errorf("deleted: %v", list[0].Err)
	}
}

// The key is not removed before the other replica in sync begins where it says.
func TestTheKeyIsRemovedWhenAllReplicasHaveTheLogStart(t *testing.T) {
	w := newWorld(t, "sync", nil)
	w.produce(12, 3)
	b := w.brokers[0]
	b.copyAll()
	w.tryDelete(30)
	w.conf.Remote, w.conf.DropRemote = false, true
	for _, b := range w.brokers { // a topic that is not copied any longer may be compacted
		compact := b.partition().Log().Config()
		compact.Cleanup.CopyFirst, compact.Cleanup.Compact = false, true
		b.partition().Log().Configure(compact)
	}
	b.copyAll()
	if err := b.healthy(); !errors.Is(err, replica.ErrTimedOut) || w.tier() == nil {
		t.Errorf("%v, %+v", err, w.tier())
	}
	w.confirm()
	b.copyAll()
	must.OK(t, b.healthy())
	if w.gone = 30; w.tier() != nil {
		t.Errorf("%+v", w.tier())
	}
	w.fail(2, 1)
	w.follow()
	w.replicate()
	must.OK(t, w.brokers[1].check())
}

// Two unclean elections before a leader has compared: what the first leader has committed below
// Start is not deleted.
func TestRecordsOfTheFirstOfTwoUncleanLeadersStay(t *testing.T) {
	w := newWorld(t, "sync", nil)
	w.produce(5, 3)
	w.lone(1, true)
	w.add(10)
	w.brokers[0].copyAll()
	w.delete(45)
	w.lone(2, false)
	w.gone = 0
	w.add(20)
	w.lone(2, false)
	b := w.brokers[1]
	must.OK(t, b.check())
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
}

// What was deleted in a later epoch than the one of the last comparison stays deleted after an
// unclean election of a log that has it.
func TestTheLogStartAfterAnUncleanElection(t *testing.T) {
	w := newWorld(t, "sync", nil)
	w.produce(5, 3)
	w.brokers[0].copyAll()
	w.fail(2, 1)
	w.follow()
	w.produce(5, 3)
	w.tryDelete(20)
	w.gone = 20
	w.lone(1, false)
	b := w.brokers[0]
	must.OK(t, b.check())
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
}
