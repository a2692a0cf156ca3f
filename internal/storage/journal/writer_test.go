package journal

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// While the writer is parked, queued entries are durable and their owners notified when WriteGroup
// returns.
func TestWriteGroupWritesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), nil)
		s, o := newStream(1), newRecorder()
		for i := range 5 {
			synctest.Wait()
			ok(t, j.Submit(new(groupcommit.Batch), entry(s, int64(i), 350, eager, o)))
			synctest.Wait()
			if o.count() != i {
				t.Errorf("%d reported before the write", o.count())
			}
			j.WriteGroup()
			if o.count() != i+1 || j.Notified() != LSN(i+1) || j.Durable() != LSN(i+1) {
				t.Errorf("%d reported, %d notified, %d durable after %d", o.count(), j.Notified(), j.Durable(), i+1)
			}
		}
		o.verify(t)
		ok(t, j.Close())
	})
}

// Entries that arrive while a caller of WriteGroup writes are written by the writer afterwards.
func TestTheWriterTakesOverFromWriteGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(memory(t))
		j := open(t, fsys, nil)
		synctest.Wait()
		s, o := newStream(1), newRecorder()
		hold := make(chan struct{})
		fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-hold }})
		ok(t, j.Submit(new(groupcommit.Batch), entry(s, 0, 350, eager, o)))
		back := make(chan struct{})
		go func() { j.WriteGroup(); close(back) }()
		synctest.Wait() // in its datasync
		for i := 1; i < 7; i++ {
			ok(t, j.give(i, entry(s, int64(i), 350, eager, o)))
			synctest.Wait()
		}
		if o.count() != 0 {
			t.Errorf("%d reported while the datasync was held up", o.count())
		}
		close(hold)
		<-back
		o.wait(7)
		o.verify(t)
		ok(t, j.Close())
	})
}

// A group that waits for others, a large group, and any group on a slow disk are left to the
// writer.
func TestWriteGroupDoesNotWait(t *testing.T) {
	t.Run("for others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j := open(t, memory(t), func(o *Options) { o.Absent = several })
			o := newRecorder()
			synctest.Wait()
			ok(t, j.Submit(new(groupcommit.Batch), entry(newStream(1), 0, 350, high, o)))
			j.WriteGroup()
			synctest.Wait()
			if o.count() != 0 {
				t.Error("the window did not stay open")
			}
			time.Sleep(high.MaxWait)
			synctest.Wait()
			if o.count() != 1 {
				t.Error("the window did not close")
			}
			ok(t, j.Close())
		})
	})
	for name, c := range map[string]struct {
		size int
		took time.Duration
	}{"for a large group": {inlineBytes + 1, 0}, "for a slow disk": {350, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := errfs.New(memory(t))
				j := open(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes = 16<<20, 128<<20 })
				synctest.Wait()
				j.mu.Lock()
				j.group.syncTime = c.took
				j.mu.Unlock()
				s, o := newStream(1), newRecorder()
				hold := make(chan struct{})
				fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-hold }})
				ok(t, j.Submit(new(groupcommit.Batch), entry(s, 0, c.size, eager, o)))
				j.WriteGroup() // returns although the disk hangs
				close(hold)
				o.wait(1)
				ok(t, j.Close())
			})
		})
	}
}

// A failure in WriteGroup stops the journal like a failure in the writer, and Close waits until the
// group has been written.
func TestWriteGroupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(memory(t))
		j := open(t, fsys, nil)
		synctest.Wait()
		fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO})
		s, o := newStream(1), newRecorder()
		e := entry(s, 0, 350, eager, o)
		ok(t, j.Submit(new(groupcommit.Batch), e))
		j.WriteGroup()
		if err := <-j.failed; !errors.Is(err, syscall.EIO) || !errors.Is(o.err(e), syscall.EIO) {
			t.Errorf("failed with %v, reported %v", err, o.err(e))
		}
		if err := j.Submit(new(groupcommit.Batch), entry(s, 0, 350, eager, o)); !errors.Is(err, ErrStopped) {
			t.Errorf("queued after the failure: %v", err)
		}
		j.begin(t, 0)
		synctest.Wait()
		hold := make(chan struct{})
		fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { <-hold }})
		last := entry(s, 0, 350, eager, o)
		ok(t, j.Submit(new(groupcommit.Batch), last))
		go j.WriteGroup()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- j.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a group was being written")
		default:
		}
		close(hold)
		ok(t, <-closed)
		ok(t, o.err(last))
		if o.count() != 2 {
			t.Errorf("%d reported", o.count())
		}
	})
}

// Entries acknowledged when written stay unsynced for the shortest interval that waits, or for
// about as long as the system's own write-back delay.
func TestAnIntervalBoundsWhatIsUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), nil)
		s, o := newStream(1), newRecorder()
		after := func(wait time.Duration, durable LSN) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if j.Durable() != durable {
				t.Errorf("%d is durable, want %d", j.Durable(), durable)
			}
		}
		ok(t, j.Submit(nil, entry(s, 0, 100, loose, o)))
		after(writeBack-time.Millisecond, 0)
		after(2*time.Millisecond, 1)
		ok(t, j.Submit(nil, entry(s, 1, 100, loose, o), entry(s, 2, 100, ticks, o)))
		after(ticks.Interval/2, 1)
		after(ticks.Interval, 3)
		o.verify(t)
		ok(t, j.Close())
	})
}
