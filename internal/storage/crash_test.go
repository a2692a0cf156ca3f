package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
)

// script is a fixed sequence of operations on one directory. promised is what had been promised
// when the disk died.
type script struct {
	d        *Dir
	l        *Log
	repeats  bool             // an operation that fails is tried again
	worked   func() error     // follows each operation; nil: nothing does
	want     map[int64][]byte // batches by base offset
	promised int64            // durable end of the log under test
	least    int64            // lowest end that a truncation may leave
	start    [2]int64         // log start, before and after a change
	born     bool
	deletion phase
	again    phase // the next log of the same name
}

// phase is how far an operation got.
type phase int

const (
	asked phase = iota + 1
	done
)

var scriptID, againID = ID{Topic: [16]byte{9}, Partition: 0}, ID{Topic: [16]byte{10}, Partition: 0}

func scriptOptions(f vfs.FS, profile string) Options {
	cfg := Config{Profile: modelProfiles()[profile],
		Segment: segment.Limits{Bytes: 2 << 10, Ms: 1 << 40, IndexInterval: 256, IndexBytes: 4096}}
	return Options{FS: f, JournalFileSize: 64 << 10, JournalBytes: 256 << 10, DeferredBytes: 1 << 20, OpenFiles: 4,
		Config: func(string, ID) Config { return cfg }}
}

var errScript = errors.New("the script ended early")

func (s *script) append(n, size int) error {
	for range n {
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(int64(len(s.want)+1), nil, bytes.Repeat([]byte{byte(len(s.want))}, size), nil)
		data, err := b.Build()
		if err != nil {
			return err
		}
		a := &Append{Batches: data, Sink: make(sink, 1)}
		appendInBatch(s.l, a)
		if <-a.Sink.(sink); a.Err != nil {
			return a.Err
		}
		data.SetBaseOffset(a.Base)
		data.SetLeaderEpoch(0)
		s.want[a.Base] = data
	}
	for start := time.Now(); s.l.AckEnd() < s.l.logEnd.Load(); time.Sleep(20 * time.Microsecond) {
		if err := s.l.Err(); err != nil {
			return err
		}
		if time.Since(start) > patience {
			return fmt.Errorf("%w: not acknowledged", errScript)
		}
	}
	s.note()
	return nil
}

func (s *script) note() { s.promised = max(s.promised, s.l.durable.Load()) }

// run performs the operations until one fails, for longer than a moment if it repeats them.
func (s *script) run(f vfs.FS, other string) error {
	open := func() (err error) {
		s.d, err = OpenDir(Location{Path: "/d"}, scriptOptions(f, "sync"))
		return err
	}
	create := func() error {
		logs, err := s.d.Create([]Spec{{ID: scriptID, Topic: "t", Config: s.d.opt.Config("t", scriptID)}})
		if err == nil {
			s.l, s.born = logs[0], true
		}
		return err
	}
	for _, step := range []func() error{open, create} {
		if err := s.step(step); err != nil {
			return err
		}
	}
	d := s.d
	steps := []func() error{
		func() error { return s.append(8, 700) }, // several segments
		s.l.flushAndSync,
		func() error { return d.checkpoint(nil) },
		func() error { return s.append(3, 200) },
		d.sweep,                                     // cannot be done by changing one file
		func() error { return s.append(4, 40<<10) }, // journal files
		d.sweep,
		func() error { return s.append(2, 100) },
		func() error { return s.alter(other) },
		func() error { return s.append(4, 900) },
		func() error { return s.alter("sync") },
		func() error { return s.append(2, 300) },
		func() error { s.start[1] = 3; return s.l.SetLogStart(3) },
		func() error { s.start[0] = 3; return nil },
		func() error { s.least = 18; s.promised = 0; return s.l.Truncate(18) },
		func() error { s.promised = 18; return s.append(2, 100) },
		func() error { s.note(); s.deletion = asked; return d.Delete(s.l) },
		func() error { s.deletion, s.again = done, asked; return s.recreate() },
		func() error { s.again, s.want = done, map[int64][]byte{}; return nil },
		func() error { return s.append(2, 500) },
		func() error { return d.Close() },
	}
	for i, step := range steps {
		if err := s.step(step); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// step performs an operation. What one has reached stays if it is repeated.
func (s *script) step(do func() error) error {
	err := do()
	for start := time.Now(); s.repeats && err != nil && time.Since(start) < patience; time.Sleep(100 * time.Microsecond) {
		err = do()
	}
	if err == nil && s.worked != nil {
		err = s.worked()
	}
	return err
}

// recreate creates another log with the name of the first.
func (s *script) recreate() error {
	s.promised, s.least, s.start = 0, 0, [2]int64{}
	logs, err := s.d.Create([]Spec{{ID: againID, Topic: "t", Config: s.d.opt.Config("t", againID)}})
	if err == nil {
		s.l = logs[0]
	}
	return err
}

func (s *script) alter(profile string) error {
	c := s.l.Config()
	c.Profile = modelProfiles()[profile]
	s.l.Configure(c)
	for start := time.Now(); s.l.AckEnd() < s.l.logEnd.Load(); time.Sleep(20 * time.Microsecond) {
		if err := s.l.Err(); err != nil {
			return err
		}
		if f, ok := s.d.opt.FS.(*crashfs.FS); time.Since(start) > patience || ok && f.Crashed() {
			return fmt.Errorf("%w: the profile was not changed", errScript)
		}
	}
	return nil
}

// check opens an image and compares it with what was promised.
func (s *script) check(image *crashfs.FS) error {
	d, err := OpenDir(Location{Path: "/d"}, scriptOptions(image, "sync"))
	if err != nil {
		return err
	}
	defer d.Close()
	logs := d.Logs()
	if len(logs) == 0 && (!s.born || s.deletion > 0 && s.again < done) {
		return nil
	}
	if len(logs) != 1 {
		return fmt.Errorf("%d logs", len(logs))
	}
	l := logs[0]
	if l.id == scriptID && s.deletion == done || l.id == againID && s.again == 0 {
		return fmt.Errorf("%s has id %x", l, l.id.Topic)
	}
	if s.again == asked { // the second log is empty, and the first one is gone
		if e := l.Ends(); e.LogEnd > 0 {
			return fmt.Errorf("a new log is %+v", e)
		}
		return nil
	}
	if err := l.Offline(); err != nil {
		return err
	}
	e := l.Ends()
	if least := max(s.promised, s.least); e.LogEnd < least || e.LogStart != s.start[0] && e.LogStart != s.start[1] {
		return fmt.Errorf("the log is %+v, promised was %d, start %v", e, least, s.start)
	}
	w := &world{rng: newRandom(1)}
	at := e.LogStart
	for _, b := range w.content(l) {
		if b.base != at || !bytes.Equal(b.data, s.want[at]) {
			return fmt.Errorf("another batch stands at %d", at)
		}
		at = b.next
	}
	if at != e.LogEnd {
		return fmt.Errorf("the log ends at %d, its batches at %d", e.LogEnd, at)
	}
	return nil
}

// TestFault01PowerLossAtEveryCall loses power, and kills the process, at system calls of the
// script: see points.
func TestFault01PowerLossAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"os", "interval"} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at += points(9) {
				f := crashfs.New(uint64(at))
				f.CrashDuring(at)
				s := &script{want: map[int64][]byte{}}
				err := s.run(f, other)
				if err != nil && !f.Crashed() {
					t.Fatalf("call %d: %v", at, err)
				}
				if s.l != nil {
					s.note()
					if s.least > 0 && err != nil && s.promised > s.least {
						s.promised = s.least
					}
				}
				if s.d != nil {
					_ = s.d.Close()
				}
				images := []*crashfs.FS{f.KillImage(1)}
				for _, m := range crashfs.Modes() {
					images = append(images, f.PowerLossImage(m, uint64(at)))
				}
				for i, image := range images {
					if err := guard(func() error { return s.check(image) }); err != nil {
						t.Fatalf("call %d, image %d: %v", at, i, err)
					}
				}
				if !f.Crashed() {
					if at < 150 {
						t.Errorf("the script makes only %d calls", at)
					}
					return
				}
			}
		})
	}
}

// TestFault03AFaultAtEveryCall lets calls of the script that change the disk fail once: see points.
// Each operation works when it is repeated, and a loss of power after one of the next operations
// takes nothing back.
func TestFault03AFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, op := range []errfs.Op{errfs.Create, errfs.Mkdir, errfs.Write, errfs.Datasync, errfs.Rename, errfs.Remove, errfs.Truncate,
		errfs.SyncDir} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			step := points(9)
			if op&(errfs.Write|errfs.Datasync|errfs.SyncDir|errfs.Rename|errfs.Create) == 0 {
				step = race.Some(1, 9) // the script has a few of them
			}
			for at := 1; ; at += step {
				disk := crashfs.New(uint64(at))
				errs := errfs.New(disk)
				rule := errs.Add(errfs.Rule{Ops: op, From: at, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
				s := &script{want: map[int64][]byte{}, repeats: true}
				left := 3 // operations after which the power fails
				s.worked = func() error {
					if rule.Hits() == 0 || left == 0 {
						return nil
					}
					left--
					return s.check(disk.PowerLossImage(crashfs.DropUnsynced, uint64(at)))
				}
				if err := guard(func() error { return s.run(errs, "os") }); err != nil {
					t.Fatalf("call %d: %v", at, err)
				}
				if rule.Hits() == 0 {
					if at == 1 {
						t.Error("the script has no such call")
					}
					return
				}
			}
		})
	}
}

// TestFault01PowerLossInsideRecovery crashes the start after a crash at each of its calls. The next
// start finds everything.
func TestFault01PowerLossInsideRecovery(t *testing.T) {
	t.Parallel()
	for _, at := range []int{240, 120}[:race.Some(2, 1)] {
		f := crashfs.New(uint64(at))
		f.CrashDuring(at)
		s := &script{want: map[int64][]byte{}}
		_ = s.run(f, "os")
		if s.l != nil {
			s.note()
			if s.least > 0 {
				s.promised = min(s.promised, s.least)
			}
		}
		if s.d != nil {
			_ = s.d.Close()
		}
		for call := 1; ; call += points(5) {
			images := slices.Collect(func(yield func(*crashfs.FS) bool) {
				for _, m := range crashfs.Modes() {
					_ = yield(f.PowerLossImage(m, uint64(call)))
				}
			})
			crashed := false
			for i, first := range images {
				first.CrashDuring(call)
				if d, err := OpenDir(Location{Path: "/d"}, scriptOptions(first, "sync")); err == nil {
					_ = d.Close()
				} else if !first.Crashed() {
					t.Fatalf("crash at %d, start: %v", at, err)
				}
				crashed = crashed || first.Crashed()
				for _, second := range []*crashfs.FS{first.KillImage(2), first.PowerLossImage(crashfs.KeepSectors, 3),
					first.PowerLossImage(crashfs.DropUnsynced, 4)} {
					if err := guard(func() error { return s.check(second) }); err != nil {
						t.Fatalf("crash at %d, mode %d, and at call %d of the start: %v", at, i, call, err)
					}
				}
			}
			if !crashed {
				break
			}
		}
	}
}

// guard converts the model's panics into errors.
func guard(f func() error) (err error) {
	defer func() {
		if x, ok := recover().(failure); ok {
			err = errors.New(x.msg)
		}
	}()
	return f()
}
