package stream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A log directory of a follower hangs: the partitions in its other directory are not delayed. When
// the disk works again, all are copied.
func TestADirectoryThatHangsDelaysOnlyItsPartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 6)
		defer w.close()
		disk := w.faulty(2)
		w.options = func(o *Options) { o.Window, o.FollowBytes = 1<<20, 128<<10 }
		w.assign(1, 1, 1)
		l := w.start(1)
		w.memory, w.paths = 128<<10, []string{"/d", "/e"}
		n := w.start(2)
		for i := range w.parts {
			must(t, l.produce(i, replica.AcksLeader, 1, 100).wait(t))
		}
		w.converge(1, 2)
		gate := make(chan struct{})
		disk.errs.Add(errfs.Rule{Ops: errfs.Datasync | errfs.Write, Before: func(errfs.Call) { <-gate },
			When: func(c errfs.Call) bool { return strings.HasPrefix(c.Path, "/e") }})
		for range 60 {
			for i := range w.parts {
				must(t, l.produce(i, replica.AcksLeader, 1, 10<<10).wait(t))
			}
		}
		behind := func(hung bool) (count int) {
			for i := range w.parts {
				p := n.partition(i)
				if (p.Log().Dir().Path() == "/e") == hung && p.Log().Ends().Durable < l.partition(i).Log().Ends().LogEnd {
					count++
				}
			}
			return count
		}
		for range 200 {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if a, b := behind(false), behind(true); a > 0 || b == 0 {
			t.Errorf("behind: %d on the other disk, %d on the disk that hangs", a, b)
		}
		close(gate)
		w.converge(1, 2)
	})
}

// A follower with one log directory writes, syncs and acknowledges what arrives on the goroutine
// that reads the connection. Each wake-up of another goroutine would delay the producer.
func TestOneDirectoryAcknowledgesWithoutWakeUps(t *testing.T) {
	for _, c := range []struct {
		paths  []string
		pushes bool
	}{{[]string{"/d"}, true}, {[]string{"/d", "/e"}, false}} {
		bubble(t, func(t *testing.T) {
			const n = 50
			w := newWorld(t, 2)
			defer w.close()
			w.assign(1, 1, 1, 2)
			l := w.start(1)
			w.paths = c.paths
			w.start(2)
			must(t, l.produce(0, replica.AcksLeader, 1, 100).wait(t))
			must(t, l.produce(1, replica.AcksLeader, 1, 100).wait(t))
			w.converge(1, 2)
			var end *end
			for x := range w.wires {
				end = x.ends[0]
			}
			pushes, kicks := end.pushes.Load(), end.kicks.Load()
			for range n {
				must(t, l.produce(0, replica.AcksAll, 1, 100).wait(t))
			}
			pushes, kicks = end.pushes.Load()-pushes, end.kicks.Load()-kicks
			if c.pushes && (pushes < n || kicks > n/5) || !c.pushes && (pushes > 0 || kicks < n) {
				t.Errorf("%d directories: %d records caused %d pushes and %d wake-ups", len(c.paths), n, pushes, kicks)
			}
		})
	}
}

// Frames that wait for their commit do not use up the memory for those that follow.
func TestTheMemoryOfFramesThatArriveTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.options = func(o *Options) { o.FollowBytes = 8 << 10 } // two frames
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		n := w.start(2)
		for range 40 {
			l.produce(0, replica.AcksAll, 1, 3<<10)
		}
		w.converge(1, 2)
		if lost := n.streams.followers[1].last; lost > 1 {
			t.Errorf("the follower subscribed %d times", lost)
		}
	})
}

// Streams that are subscribed again at different times share the runs of the timer.
func TestPausesEndTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.assign(1, 1, 1, 2)
		w.start(1)
		f := w.start(2).streams.followers[1]
		const n = 1000
		for i := range n {
			p := &part{s: f.s}
			f.wakeAt(&following{part: p, from: f, state: paused}, time.Now().Add(firstPause+time.Duration(i)*100*time.Microsecond))
		}
		runs, left := 0, n
		for range 1000 {
			time.Sleep(100 * time.Microsecond)
			synctest.Wait()
			f.mu.Lock()
			if len(f.waiting) < left {
				runs, left = runs+1, len(f.waiting)
			}
			f.mu.Unlock()
		}
		time.Sleep(2 * mostPause)
		if synctest.Wait(); left > 100 || runs > 20 {
			t.Errorf("%d runs of the timer ended %d of %d pauses within 100 ms", runs, n-left, n)
		}
	})
}
