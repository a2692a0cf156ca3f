package tier

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Records are copied, local disks drop them, and readers get all of them.
func TestRecordsAreReadFromTheStore(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	for range 5 {
		w.produce(4, 3)
		b.copyAll()
		must.OK(t, b.healthy())
		b.retain()
		w.replicate()
		must.OK(t, b.check())
	}
	e := b.partition().Ends()
	if x := w.tier(); x.Start != 0 || x.End < 40 || e.LocalStart < 30 || e.LogStart != 0 {
		t.Errorf("%+v, %+v", x, e)
	}
	w.fail(2, 1)
	w.follow()
	w.replicate()
	must.OK(t, w.brokers[1].check())
}

// undone lets broker 1 copy records that broker 2 lacks, and broker 2 lead after an unclean
// election. Both have dropped the first records.
func undone(t *testing.T) *world {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.produce(6, 3)
	b.copyAll()
	b.retain()
	w.produce(2, 3)
	w.lone(1, true)
	w.add(8)
	b.copyAll()
	must.OK(t, b.healthy())
	if x := w.tier(); x.End < 30 {
		t.Fatalf("%+v", x)
	}
	w.lone(2, false)
	if end := len(w.values); end != 24 {
		t.Fatalf("%d records are left", end)
	}
	return w
}

// What an unclean election has undone is read from no store, also before the new leader has
// compared its log with that.
func TestUndoneRecordsAreNotRead(t *testing.T) {
	w := undone(t)
	w.add(3)
	must.OK(t, w.brokers[1].check())
	w.brokers[1].copyAll()
	must.OK(t, w.brokers[1].check())
}

// The new leader of an unclean election drops no records because the store has others at their
// offsets.
func TestUndoneRecordsAreNoCopies(t *testing.T) {
	w := undone(t)
	b := w.brokers[1]
	w.add(3)
	b.retain()
	must.OK(t, b.check())
	b.copyAll()
	b.retain()
	must.OK(t, b.healthy())
	must.OK(t, b.check())
	w.add(8)
	b.copyAll()
	b.retain()
	must.OK(t, b.healthy())
	must.OK(t, b.check())
	if x, e := w.tier(), b.partition().Ends(); x.End < 45 || e.LocalStart < 40 {
		t.Errorf("%+v, %+v", x, e)
	}
}

// An unclean election may leave a log that ends below the first record of which the store has a
// copy, or below those that were deleted. The records that follow are copied.
func TestALogThatEndsBelowTheCopies(t *testing.T) {
	for name, all := range map[string]bool{"some were deleted": false, "all were deleted": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sync", nil)
			w.produce(2, 3)
			w.lone(1, true)
			w.add(8)
			w.brokers[0].copyAll()
			if w.delete(15); all {
				w.delete(int64(len(w.values)))
			}
			w.lone(2, false)
			w.gone = 0
			b := w.brokers[1]
			must.OK(t, b.check())
			for range 4 {
				w.add(4)
				b.copyAll()
				must.OK(t, b.healthy())
				b.retain()
				must.OK(t, b.check())
			}
		})
	}
}

// Records are deleted while the first copy begins: they do not come back.
func TestNoCopyBringsBackDeletedRecords(t *testing.T) {
	w := newWorld(t, "sync", nil)
	w.produce(6, 3)
	w.lone(1, true)
	b := w.brokers[0]
	copies := func() { b.copyAll() }
	b.beforeStart.Store(&copies)
	w.delete(10)
	must.OK(t, b.healthy())
	if x := b.partition().Tier(); x.Start != 10 || x.End < 12 {
		t.Errorf("%+v", x)
	}
	must.OK(t, b.check())
}

// Records are deleted that are in one of the older manifests: nothing changes until all of its
// records are.
func TestRetentionWaitsForWholeManifests(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.lone(1, true)
	w.add(60)
	b.copyAll()
	must.OK(t, b.healthy())
	w.delete(20)
	w.conf.RetentionBytes = 1 << 30
	changes := 0
	w.alter = func(x *metadata.TierChange) (int64, error) {
		if changes++; changes > 3 {
			return 0, errors.New("there is no end of changes")
		}
		return w.ctl.AlterTier(t.Context(), x)
	}
	b.copyAll()
	must.OK(t, b.healthy())
	must.OK(t, b.check())
}

// retention.bytes keeps as many bytes, also if the newest records are much smaller than those
// before.
func TestRetentionBytesOfSmallRecords(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.lone(1, true)
	w.add(20)
	b.copyAll()
	b.size = 10
	for range 100 {
		w.add(1)
	}
	w.conf.RetentionBytes = 60 << 10
	b.copyAll()
	must.OK(t, b.healthy())
	if start := w.tier().Start; start > 10 {
		t.Errorf("the log begins at %d, although all 60 large records have 62 KB", start)
	}
}

// A round copies one object of a partition, so that others have their turn, and is followed by
// another one as long as there is more.
func TestARoundCopiesOneObject(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.produce(12, 3)
	end, rounds := int64(0), 0
	for more := true; more; rounds++ {
		more = b.c.round(t.Context())
		must.OK(t, b.healthy())
		next := w.tier().End
		if more != (next > end) {
			t.Fatalf("round %d has copied up to %d after %d, and there is more: %t", rounds, next, end, more)
		}
		end = next
	}
	if rounds < 3 {
		t.Errorf("%d rounds have copied everything", rounds)
	}
}

// A partition that has failed waits for the interval, whatever is due of others.
func TestAFailedPartitionWaits(t *testing.T) {
	w := newWorld(t, "sync", func(o *Options) { o.Interval = time.Hour })
	b := w.brokers[0]
	w.produce(6, 3)
	off := w.store.Add(faultstore.Rule{Ops: faultstore.Put, From: 1, Count: 1, Err: faultstore.ErrInjected})
	defer off.Off()
	for range 3 {
		if b.c.round(t.Context()) {
			t.Error("there is more to copy at once")
		}
	}
	if n := b.c.counts.failures.Load(); n != 1 {
		t.Errorf("%d attempts have failed, expected 1", n)
	}
}

// A rate may keep an object from being read for longer than a step may take otherwise.
func TestALowRateHasItsTime(t *testing.T) {
	c := New(Options{Rate: func() int64 { return 64 << 10 }})
	if d := c.atRate(); d < copiers*1024*time.Second || New(Options{}).atRate() != 0 {
		t.Errorf("%v", d)
	}
}

// While one partition has a long backlog, no round examines the others before the interval.
func TestABacklogIsCopiedWithoutTheOthers(t *testing.T) {
	lists := 0
	w := newWorld(t, "sync", func(o *Options) {
		o.Interval = time.Hour
		all := o.Partitions
		o.Partitions = func() []*replica.Partition { lists++; return all() }
	})
	b := w.brokers[0]
	w.produce(12, 3)
	rounds := 1
	for b.c.round(t.Context()) {
		rounds++
	}
	must.OK(t, b.healthy())
	if rounds < 3 || lists != 1 {
		t.Errorf("%d rounds have examined all partitions %d times", rounds, lists)
	}
}

// A copy reads the newest manifest only. A leader reads manifests once, and no log object if it has
// what was copied.
func TestCallsOfTheStore(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.produce(60, 3)
	b.copyAll()
	must.OK(t, b.healthy())
	w.produce(40, 3)
	objects, calls, puts := b.c.counts.objects.Load(), w.store.Calls(faultstore.Get), w.store.Calls(faultstore.Put)
	b.copyAll()
	must.OK(t, b.healthy())
	objects, calls, puts = b.c.counts.objects.Load()-objects, w.store.Calls(faultstore.Get)-calls, w.store.Calls(faultstore.Put)-puts
	if objects < 3 || int64(calls) > 2*objects || int64(puts) > 3*objects {
		t.Errorf("%d objects were copied with %d reads and %d writes", objects, calls, puts)
	}
	b = w.brokers[1]
	w.fail(2, 1)
	w.follow()
	w.replicate()
	logs := 0
	w.store.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "log/", Before: func(faultstore.Call) { logs++ }})
	for _, first := range []bool{true, false} {
		calls = w.store.Calls(faultstore.Get)
		b.copyAll()
		must.OK(t, b.healthy())
		if n := w.store.Calls(faultstore.Get) - calls; logs > 0 || n > 0 != first {
			t.Errorf("a new leader with nothing to copy reads %d times, %d of these in log objects", n, logs)
		}
	}
}

// BenchmarkRound is a round of a broker that leads 10,000 partitions of which nothing is due.
func BenchmarkRound(b *testing.B) {
	const many = 10_000
	w := newWorld(b, "sync", func(o *Options) {
		all := o.Partitions
		o.Partitions = func() []*replica.Partition { return slices.Repeat(all(), many) }
	})
	w.produce(12, 3)
	x := w.brokers[0]
	x.copyAll()
	must.OK(b, x.healthy())
	for b.Loop() {
		x.c.round(b.Context())
	}
}
