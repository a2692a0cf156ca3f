package stream

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// resigner notes the leader epochs that must end.
type resigner chan int32

func (r resigner) Resign(_ context.Context, _ int32, _ int64, list map[metadata.TopicPartition]int32) error {
	for _, epoch := range list {
		select {
		case r <- epoch:
		default:
		}
	}
	return nil
}

// damage changes a byte of the records of every log.
func damage(t testing.TB, fs vfs.FS) {
	t.Helper()
	logs, err := fs.List("/d")
	must(t, err)
	for _, l := range logs {
		if !strings.HasSuffix(l.Name, "-0") {
			continue
		}
		files, err := fs.List(path.Join("/d", l.Name))
		must(t, err)
		for _, x := range files {
			if strings.HasSuffix(x.Name, ".log") {
				f, err := fs.Open(path.Join("/d", l.Name, x.Name))
				must(t, err)
				_, err = f.WriteAt([]byte{0xff}, 200)
				must(t, err)
				must(t, f.Close())
				return
			}
		}
	}
	t.Fatalf("no log: %+v", logs)
}

// A leader that cannot read what a follower needs would keep it out of the ISR for ever. Another
// member of the ISR leads instead.
func TestALeaderThatCannotReadForAFollowerResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.resigns = make(resigner, 1)
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		w.start(2)
		for range 30 {
			must(t, l.produce(0, replica.AcksAll, 1, 4000).wait(t))
		}
		w.converge(1, 2)
		w.stop(1, false)
		damage(t, w.disks[1])
		w.start(1)
		w.assign(1, 2, 1, 2)
		w.start(3)
		select {
		case epoch := <-w.resigns:
			if epoch != 2 {
				t.Errorf("it resigns in epoch %d", epoch)
			}
		case <-time.After(time.Minute):
			t.Error("it leads for ever")
		}
	})
}

// If no other member of the ISR can lead, such a leader accepts each subscription and ends it at
// once. The follower asks again less and less often, until it gets records.
func TestAFollowerOfADamagedLeaderAsksLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		core, logs := observer.New(zap.ErrorLevel)
		w.options = func(o *Options) { o.Logger = zap.New(core) }
		w.assign(1, 1, 1)
		l := w.start(1)
		for range 30 {
			must(t, l.produce(0, replica.AcksAll, 1, 4000).wait(t))
		}
		w.stop(1, false)
		damage(t, w.disks[1])
		w.start(1)
		w.assign(1, 2, 1)
		w.start(3)
		time.Sleep(time.Minute)
		lines := logs.FilterMessage("cannot send damaged records to a follower; see chronikctl cluster health").All()
		if len(lines) < 4 || len(lines) > 8 { // of a series
			t.Fatalf("%d lines", len(lines))
		}
		last := lines[len(lines)-1].ContextMap()
		if n := last["failures"].(int64); n < 5 || n > 100 || fmt.Sprint(last["follower"]) != "3" {
			t.Errorf("the leader failed to send %d times in a minute: %v", n, last)
		}
	})
}

// A follower says why it refuses frames, of which leader, and not each time. A truncation that ends
// with its role is no failure.
func TestAFollowerSaysFewOfManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		core, logs := observer.New(zap.InfoLevel)
		w.options = func(o *Options) { o.Logger = zap.New(core) }
		w.assign(1, 1, 1)
		l := w.start(1)
		w.start(3)
		must(t, l.produce(0, replica.AcksAll, 1, 4000).wait(t))
		w.converge(1, 3)
		logs.TakeAll()
		var refused atomic.Int64
		w.fault = func(_, _ int32, kind frame.Kind, raw []byte) [][]byte {
			if kind == frame.DA && len(raw) > frame.HeaderSize+frame.DataSize {
				refused.Add(1)
				raw = bytes.Clone(raw)
				raw[len(raw)-1] ^= 1
				frame.PutHeader(raw, kind, raw[2], raw[3], raw[frame.HeaderSize:])
			}
			return [][]byte{raw}
		}
		w.stop(3, false) // its wires have the fault from now on
		f := w.start(3)
		must(t, l.produce(0, replica.AcksLeader, 1, 4000).wait(t))
		time.Sleep(time.Minute)
		lines := logs.FilterMessageSnippet("a frame from a leader was refused").TakeAll()
		if n := refused.Load(); n < 10 || len(lines) < 3 || len(lines) > 8 {
			t.Fatalf("%d lines of %d frames", len(lines), n)
		}
		c := lines[0].ContextMap()
		if fmt.Sprint(c["leader"]) != "1" || !strings.Contains(c["error"].(string), storage.ErrCorrupt.Error()) {
			t.Errorf("said: %v", c)
		}
		x := f.streams.parts[f.partition(0)].following.Load()
		logs.TakeAll()
		const eio = syscall.EIO
		for _, err := range []error{storage.ErrFencedEpoch, storage.ErrClosed, eio, eio, eio, eio, nil, nil} {
			x.truncated(&storage.Truncation{Err: err})
		}
		a, b := logs.FilterMessage(cannotTruncate).Len(), logs.FilterMessage("a replica was truncated after failures").Len()
		if a != 3 || b != 1 {
			t.Errorf("%d and %d lines of truncations: %+v", a, b, logs.All())
		}
		x.part.mu.Lock()
		x.state, x.slot = live, 99
		x.part.mu.Unlock()
		x.accept(frame.Data{Slot: 99, LeaderEpoch: x.epoch + 1}, nil)
		if n := logs.FilterField(zap.NamedError("error", errOtherEpoch)).Len(); n != 1 {
			t.Errorf("another epoch: %+v", logs.All())
		}
	})
}
