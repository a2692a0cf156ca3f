package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Many goroutines submit to many streams with all profiles, and some of them write groups
// themselves. Every owner is notified once, in LSN order, every stream in the order of Submit, and
// every entry reported as durable is durable.
func TestOrderUnderConcurrency(t *testing.T) {
	disk := crashing(t, 1)
	j := open(t, disk, func(o *Options) { o.MaxBytes = 64 << 20 })
	o := newRecorder()
	o.check = func(e *Entry, err error) {
		if err == nil && e.LSN > j.Durable() {
			t.Errorf("LSN %d was reported, %d is durable", e.LSN, j.Durable())
		}
	}
	const streams, each = 16, 60
	var wg sync.WaitGroup
	for n := range streams {
		wg.Go(func() {
			rng, s := rand.New(rand.NewPCG(uint64(n), 1)), newStream(n)
			for i := range each {
				p := []*durability.Profile{eager, eager, low, high}[rng.IntN(4)]
				ok(t, j.give(rng.IntN(3), entry(s, int64(i), rng.IntN(6000), p, o)))
			}
		})
	}
	wg.Wait()
	ok(t, j.Close())
	if o.count() != streams*each {
		t.Errorf("%d of %d reported", o.count(), streams*each)
	}
	o.verify(t)
	all, _, err := frames(disk.PowerLossImage(0, 1), j.at)
	ok(t, err)
	for _, e := range o.entries {
		ok(t, o.err(e))
		ok(t, holds(all, e))
	}
	if err := j.Submit(nil, entry(newStream(99), 0, 1, eager, o)); !errors.Is(err, ErrStopped) {
		t.Errorf("submit after close: %v", err)
	}
	ok(t, j.Close())
}

// While a datasync is held up, no owner is notified, whatever arrives.
func TestNoOwnerIsNotifiedBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(memory(t))
		j := open(t, fsys, nil)
		s, o := newStream(1), newRecorder()
		hold := make(chan struct{})
		held := fsys.Add(errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-hold }})
		const n = 10
		for i := range n {
			ok(t, j.Submit(nil, entry(s, int64(i), 350, eager, o)))
			synctest.Wait()
		}
		if o.count() != 0 {
			t.Errorf("%d reported during the sync", o.count())
		}
		close(hold)
		synctest.Wait()
		// One for the first entry, one for all that arrived meanwhile.
		if o.count() != n || held.Hits() != 2 {
			t.Errorf("%d reported with %d syncs", o.count(), held.Hits())
		}
		o.verify(t)
		ok(t, j.Close())
	})
}

// 50 MB of one stream are queued before a small entry of another stream: the small entry is part of
// one of the next two writes.
func TestBulkDoesNotHoldUpSmallEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(memory(t))
		j := open(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes = 16<<20, 128<<20 })
		bulk, o := newStream(1), newRecorder()
		var entries []*Entry
		for i := range 200 {
			entries = append(entries, entry(bulk, int64(i), 256<<10, eager, o))
		}
		hold := make(chan struct{})
		rule := fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-hold }})
		ok(t, j.Submit(nil, entries...))
		synctest.Wait() // the first write waits for its sync
		small := newRecorder()
		e := entry(newStream(2), 0, 350, eager, small)
		ok(t, j.Submit(nil, e))
		close(hold)
		small.wait(1)
		if e.LSN > 10 {
			t.Errorf("%d bulk entries of 256 KiB were written first", e.LSN-1)
		}
		rule.Off()
		o.wait(len(entries))
		o.verify(t)
		ok(t, j.Close())
	})
}

// Drop removes the entries that are not being written; the others are written as usual.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), func(o *Options) { o.Absent = several })
		a, b := newStream(1), newStream(2)
		oa, ob := newRecorder(), newRecorder()
		ok(t, j.Submit(nil, entry(a, 0, 100, high, oa), entry(a, 1, 100, high, oa)))
		ok(t, j.Submit(nil, entry(b, 0, 100, high, ob)))
		j.Drop(a)
		if oa.count() != 2 || !errors.Is(oa.err(oa.entries[0]), ErrDropped) {
			t.Errorf("%d reported", oa.count())
		}
		ok(t, j.Submit(nil, entry(a, 0, 100, high, oa)))
		time.Sleep(high.MaxWait)
		synctest.Wait()
		if ob.count() != 1 || oa.count() != 3 {
			t.Errorf("%d and %d reported", ob.count(), oa.count())
		}
		j.Drop(a)
		j.Drop(newStream(3))
		ok(t, j.Close())
	})
}

// BenchmarkGroup measures 128 producers whose entries share one datasync.
func BenchmarkGroup(b *testing.B) {
	for _, streams := range []int{1, 128} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			j := open(b, memory(b), func(o *Options) { o.FileSize, o.MaxBytes = 64<<20, 1<<30 })
			const n = 128
			var c counter
			entries := make([]*Entry, n)
			all := make([]*Stream, streams)
			for i := range all {
				all[i] = newStream(i)
			}
			for i := range entries {
				entries[i] = entry(all[i%streams], 0, 350, eager, &c)
			}
			b.SetBytes(n * 350)
			b.ReportAllocs()
			for b.Loop() {
				c.Add(n)
				for _, e := range entries {
					ok(b, j.Submit(nil, e))
				}
				c.Wait()
				if j.Used() > 512<<20 {
					j.Release(j.Oldest(j.Notified() + 1))
				}
			}
			ok(b, j.Close())
		})
	}
}

// counter counts down with each notification.
type counter struct{ sync.WaitGroup }

func (c *counter) Written(*Entry) { c.Done() }

func (c *counter) Durable(*Entry, error) { c.Done() }
