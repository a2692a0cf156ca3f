package storage

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// hanging is a Manager of two directories on a disk whose calls a rule can block. Each value sent
// to ticks stands for the end of hungAfter.
type hanging struct {
	*Manager
	errs  *errfs.FS
	disk  *crashfs.FS
	ticks chan time.Time
	free  chan struct{}
}

func hangs(t *testing.T) *hanging {
	t.Helper()
	h := &hanging{disk: crashfs.New(1), ticks: make(chan time.Time), free: make(chan struct{})}
	h.errs = errfs.New(h.disk)
	h.Manager = mustManage(t, h.errs)
	h.tick = func() <-chan time.Time { return h.ticks }
	t.Cleanup(func() { // before the manager is closed
		if h.free != nil {
			close(h.free)
		}
	})
	return h
}

// hold blocks calls on /b.
func (h *hanging) hold(ops errfs.Op, path string) *errfs.Fault {
	free := h.free
	return h.errs.Add(errfs.Rule{Ops: ops, Path: path, Before: func(errfs.Call) { <-free }})
}

// made returns a function that reports whether n logs have been created.
func (h *hanging) made(n int) func() bool { return func() bool { return len(h.Logs()) == n } }

// release unblocks the calls.
func (h *hanging) release() {
	close(h.free)
	h.free = nil
}

// during runs fn and sends ticks once /a has done its part and a call on /b is blocked. It returns
// when fn has ended.
func (h *hanging) during(t *testing.T, held *errfs.Fault, done func() bool, fn func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); fn() }()
	eventually(t, "/a is done and a call on /b is held", func() bool { return held.Hits() > 0 && done() })
	for {
		select {
		case h.ticks <- time.Time{}:
		case <-ended: // a tick may have come before the operation on /a had quite ended
			eventually(t, "/a does not hang", func() bool { return h.Hung(h.Dirs()[0]) == nil })
			return
		}
	}
}

// A directory whose disk hangs does not keep logs from being created in another one. It gets no new
// logs and refuses at once until its disk answers. Operations that had begun are then completed,
// and a log whose creation had begun there is created nowhere else.
func TestAHungDiskHoldsUpNoOtherDirectory(t *testing.T) {
	h := hangs(t)
	held := h.hold(errfs.Mkdir|errfs.Create, "/b/*")
	specs := specsOf('t', 4)
	h.during(t, held, h.made(2), func() {
		if _, err := h.Create(specs); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "/b hangs") {
			t.Errorf("create: %v", err)
		}
	})
	if n := len(h.Logs()); n != 2 {
		t.Errorf("%d logs were made, want the two of /a", n)
	}
	for i := range specs {
		if h.Get(specs[i].ID) == nil {
			if _, err := h.Create(specs[i : i+1]); !errors.Is(err, ErrFailed) { // without ticks it would block
				t.Errorf("once more: %v", err)
			}
		}
	}
	logs, err := h.Create(specsOf('u', 3))
	must(t, err)
	for _, l := range logs {
		put(t, l, 1, 10)
		if l.Dir().Path() != "/a" {
			t.Errorf("%s was made in %s", l, l.Dir().Path())
		}
	}
	h.release()
	eventually(t, "what was begun has ended", func() bool { return len(h.Logs()) == 7 })
	for _, s := range specs {
		put(t, h.Get(s.ID), 1, 10)
	}
	eventually(t, "/b gets new logs", func() bool {
		logs, err := h.Create(specsOf(byte('A'+len(h.Logs())), 1))
		return err == nil && logs[0].Dir().Path() == "/b"
	})
}

// Logs are deleted in every directory whose disk answers. Logs in a hung directory are out of use,
// and their deletion continues when the disk answers.
func TestAHungDiskHoldsUpNoOthersDeletion(t *testing.T) {
	h := hangs(t)
	specs := specsOf('t', 4)
	logs, err := h.Create(specs)
	must(t, err)
	var ids []ID
	for _, l := range logs {
		put(t, l, 1, 10)
		ids = append(ids, l.ID())
	}
	before := h.dirs[0].steps.Load()
	held := h.hold(errfs.Create|errfs.Rename, "/b/*")
	h.during(t, held, func() bool { return len(h.dirs[0].Logs()) == 0 && h.dirs[0].steps.Load() >= before+4 }, func() {
		if err := h.Delete(ids...); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "/b hangs") {
			t.Errorf("delete: %v", err)
		}
	})
	if n := len(h.Logs()); n != 0 {
		t.Errorf("%d logs are in use", n)
	}
	h.release()
	must(t, h.Close())
	if left := mustManage(t, h.disk).Logs(); len(left) > 0 {
		t.Errorf("left after a start: %v", left)
	}
}

// Operations on a slow directory may take any time as long as it makes progress: it creates a log,
// or records become durable.
func TestASlowDiskIsWaitedFor(t *testing.T) {
	h := hangs(t)
	d := h.dirs[1]
	op := &operation{dir: d, progress: d.progress()}
	l := makeLogs(t, d, 1, "sync")[0]
	for _, what := range []string{"it made a log", "records became durable"} {
		if h.gaveUp(op) {
			t.Errorf("given up although %s", what)
		}
		put(t, l, 1, 10)
	}
	if h.gaveUp(op) || !h.gaveUp(op) {
		t.Error("not given up although nothing happened")
	}
}

// The deletion of a topic is not forgotten if a disk blocks the creation of its log.
func TestALogThatIsBeingMadeIsNotTakenForDeleted(t *testing.T) {
	h := hangs(t)
	held := h.hold(errfs.Mkdir, "/b/*")
	specs := specsOf('t', 2)
	h.during(t, held, h.made(1), func() { _, _ = h.Create(specs) })
	if err := h.Delete(specs[0].ID, specs[1].ID); !errors.Is(err, ErrFailed) {
		t.Errorf("deleted while one is being made: %v", err)
	}
}

// A deletion that a hung directory refuses is not forgotten: the next one deletes the logs.
func TestARefusedDeletionIsMadeUpFor(t *testing.T) {
	h := hangs(t)
	specs := specsOf('t', 2)
	logs, err := h.Create(specs)
	must(t, err)
	held := h.hold(errfs.Mkdir, "/b/*")
	more := specsOf('u', 2)
	h.during(t, held, h.made(3), func() { _, _ = h.Create(more) })
	if err := h.Delete(specs[0].ID, specs[1].ID); !errors.Is(err, ErrFailed) {
		t.Errorf("deleted in a directory that hangs: %v", err)
	}
	h.release()
	eventually(t, "/b answers", func() bool { return h.Hung(h.dirs[1]) == nil })
	must(t, h.Delete(specs[0].ID, specs[1].ID, specs[1].ID, specs[0].ID)) // an id may be given repeatedly
	for _, l := range logs {
		if slices.Contains(l.Dir().Logs(), l) {
			t.Errorf("%s was reported as deleted, and its directory has it", l)
		}
	}
}

// A deletion that fails together with that of a log whose creation failed is made up for by the
// next call: that does not report logs as deleted which the directory still has.
func TestADeletionWithAFailedCreationIsMadeUpFor(t *testing.T) {
	h := hangs(t)
	specs := specsOf('t', 2)
	logs, err := h.Create(specs)
	must(t, err)
	const changes = errfs.Create | errfs.Rename | errfs.Write | errfs.Datasync
	fault := h.errs.Add(errfs.Rule{Ops: changes, Path: "/b/checkpoint/*", Err: syscall.EIO})
	specs = append(specs, specsOf('u', 2)...)
	if _, err := h.Create(specs[2:]); err == nil {
		t.Fatal("created without a checkpoint")
	}
	ids := make([]ID, len(specs))
	for i := range specs {
		ids[i] = specs[i].ID
	}
	if err := h.Delete(ids...); err == nil {
		t.Fatal("deleted without a checkpoint")
	}
	fault.Off()
	must(t, h.Delete(ids...))
	for _, l := range logs {
		if slices.Contains(l.Dir().Logs(), l) {
			t.Errorf("%s was reported as deleted, and its directory has it", l)
		}
	}
	must(t, h.Close())
	if left := mustManage(t, h.disk).Logs(); len(left) > 0 {
		t.Errorf("left after a start: %v", left)
	}
}

// A deletion that waits for a flush which hangs has not ended: another call does not report the log
// as deleted.
func TestADeletionThatHangsIsNotDoneForAnotherCall(t *testing.T) {
	h := hangs(t)
	logs, err := h.Create(specsOf('t', 2))
	must(t, err)
	l := logs[slices.IndexFunc(logs, func(l *Log) bool { return l.Dir().Path() == "/b" })]
	l.flushMu.Lock()
	ended := make(chan error, 1)
	go func() { ended <- h.Delete(l.ID()) }()
	eventually(t, "the deletion has begun", func() bool { return h.Get(l.ID()) == nil })
	for open := true; open; {
		select {
		case h.ticks <- time.Time{}:
		case err := <-ended:
			open = false
			if !errors.Is(err, ErrFailed) {
				t.Errorf("a deletion that hangs: %v", err)
			}
		}
	}
	if err := h.Delete(l.ID()); !errors.Is(err, ErrFailed) {
		t.Errorf("another call: %v", err)
	}
	l.flushMu.Unlock()
	eventually(t, "/b answers", func() bool { return h.Hung(l.Dir()) == nil })
	must(t, h.Delete(l.ID()))
	if slices.Contains(l.Dir().Logs(), l) {
		t.Error("its directory has the log")
	}
}

// A stop closes and marks the directories whose disks answer, and reports the one that it left.
func TestAHungDiskTakesTheCleanMarkFromNoOther(t *testing.T) {
	h := hangs(t)
	logs, err := h.Create(specsOf('t', 4))
	must(t, err)
	for _, l := range logs {
		put(t, l, 1, 10)
	}
	held := h.hold(errfs.Create|errfs.Rename, "/b/checkpoint/*")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Shutdown(ctx) }()
	marked := func(dir string) bool { return markedClean(h.disk, dir) }
	eventually(t, "/a is marked clean while /b is held", func() bool { return held.Hits() > 0 && marked("/a") })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "log directory /b could not be closed in time") {
		t.Error(err)
	}
	h.release()
	eventually(t, "/b is closed after all", func() bool { return marked("/b") })
}

// A directory whose disk hangs while it is recovered does not keep the others out of use, and is
// released unchanged when its disk answers.
func TestADiskThatHangsAtTheStartHoldsUpNoOther(t *testing.T) {
	for _, held := range []errfs.Rule{{Ops: errfs.Stat | errfs.Open}, {Ops: errfs.Datasync}, {Ops: errfs.Rename | errfs.Create}} {
		held.When = func(c errfs.Call) bool { return strings.HasPrefix(c.Path, "/b/") }
		disk := filled(t).KillImage(1)
		errs := errfs.New(disk)
		free, ticks := make(chan struct{}), make(chan time.Time)
		held.Before = func(errfs.Call) { <-free }
		fault := errs.Add(held)
		opened, left := make(chan *Manager), make(chan struct{})
		go func() {
			m, err := openManager(errs, func(o *Options) {
				o.openTick = func() <-chan time.Time { return ticks }
				encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
				discard := zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zap.WarnLevel)
				o.Logger = zap.New(discard, zap.Hooks(func(e zapcore.Entry) error {
					if strings.Contains(e.Message, "that hung at the start answers") {
						close(left)
					}
					return nil
				}))
			})
			if err != nil {
				t.Error(err)
			}
			opened <- m
		}()
		eventually(t, "a call on /b is held", func() bool { return fault.Hits() > 0 })
		var m *Manager
		for m == nil {
			select {
			case ticks <- time.Time{}:
			case m = <-opened:
			}
		}
		if failed := m.Failed(); len(failed) != 1 || failed[0].Path != "/b" || !strings.Contains(failed[0].Error(), "has not answered") {
			t.Errorf("%+v: failed are %v", held, failed)
		}
		put(t, m.Logs()[0], 1, 10)
		close(free)
		<-left
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		again := mustManage(t, disk)
		if n := len(again.Logs()); n != 2 || len(again.Failed()) > 0 {
			t.Errorf("%+v: the next start has %d logs, failed are %v", held, n, again.Failed())
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A recovery that makes progress is waited for, and so is the only directory.
func TestASlowStartIsNotAHungOne(t *testing.T) {
	disk := filled(t)
	errs := errfs.New(disk)
	ticks, free := make(chan time.Time), make(chan struct{})
	errs.Add(errfs.Rule{Ops: errfs.Stat | errfs.Open, Before: func(errfs.Call) { <-free }})
	go func() {
		for range 5 {
			ticks <- time.Time{}
		}
		close(free)
	}()
	m := mustManage(t, errs, func(o *Options) { o.openTick = func() <-chan time.Time { return ticks } })
	if failed := m.Failed(); len(failed) > 0 {
		t.Errorf("failed are %v", failed)
	}
}
