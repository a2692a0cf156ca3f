package stream

import (
	"context"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
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
		if n := logs.FilterMessage("cannot send damaged records to a follower; see chronikctl cluster health").Len(); n < 10 || n > 100 {
			t.Errorf("the leader failed to send %d times in a minute", n)
		}
	})
}
