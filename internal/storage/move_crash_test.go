package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// moving is a log that moves to another directory and back, and that gets records meanwhile.
type moving struct {
	m          *Manager
	rules      broken
	want       map[int64][]byte
	born       bool
	start, end int64 // acknowledged
	mayStart   int64 // that a move of the start in progress sets
}

func (s *moving) open(f *crashfs.FS) error {
	m, err := openManager(f, func(o *Options) {
		cfg := testConfig("sync")
		cfg.Segment.Bytes = 1500
		o.Config, o.broken = func(string, ID) Config { return cfg }, s.rules
	})
	if err == nil {
		s.m = m
		lead(m.Logs()...)
	}
	return err
}

func (s *moving) log() *Log { return s.m.Get(scriptID) }

func (s *moving) append(n int) error {
	l := s.log()
	for range n {
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(1, nil, bytes.Repeat([]byte{byte(len(s.want))}, 400), nil)
		data, err := b.Build()
		if err != nil {
			return err
		}
		a := send(l, data)
		if a.Err != nil {
			return a.Err
		}
		data.SetBaseOffset(a.Base)
		data.SetLeaderEpoch(epochOf(l))
		s.want[a.Base] = data
	}
	for began := time.Now(); l.durable.Load() < l.logEnd.Load(); time.Sleep(20 * time.Microsecond) {
		l.dir.journal.Sync()
		if err := l.Err(); err != nil {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%w: not durable", errScript)
		}
	}
	s.end = l.durable.Load()
	return nil
}

// move moves the log to a directory. Records come between the beginning and the end.
func (s *moving) move(to int, n int) error {
	if err := s.m.BeginMove(context.Background(), scriptID, s.m.dirs[to]); err != nil {
		return err
	}
	if err := s.append(n); err != nil {
		return err
	}
	return s.finish()
}

// finish completes a move, as replica does.
func (s *moving) finish() error {
	for tries := 0; ; tries++ {
		epoch := epochOf(s.log())
		l, err := s.m.RunMove(context.Background(), scriptID)
		if err == nil {
			l.SetLeaderEpoch(max(epoch, 0), true)
			l.Observe(alone{l: l})
		}
		if err == nil || tries == 3 || errors.Is(err, ErrMoveCanceled) {
			return err
		}
	}
}

func (s *moving) run(f *crashfs.FS) error {
	if err := s.open(f); err != nil {
		return err
	}
	s.m.dirs[1].guard.last.Store(&Space{Level: diskguard.Low}) // the log begins in the other one
	_, err := s.m.Create([]Spec{{ID: scriptID, Topic: "t", Config: s.m.dirs[0].opt.Config("t", scriptID)}})
	s.m.dirs[1].guard.last.Store(&Space{})
	if err != nil {
		return err
	}
	s.born = true
	lead(s.log())
	steps := []func() error{
		func() error { return s.append(9) },
		func() error { return s.log().flush() },
		func() error { return s.move(1, 2) },
		func() error { return s.append(3) },
		func() error {
			s.mayStart = 5
			err := s.log().SetLogStart(5)
			if err == nil {
				s.start = 5
			}
			return err
		},
		func() error { return s.move(0, 4) },
		func() error { return s.append(1) },
		func() error { return s.m.BeginMove(context.Background(), scriptID, s.m.dirs[1]) },
		func() error { return s.m.BeginMove(context.Background(), scriptID, s.m.dirs[0]) }, // canceled
		func() error { return s.append(1) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s.m.Close()
}

// whole returns an error unless the log is there once, with everything acknowledged.
func (s *moving) whole() error {
	if failed := s.m.Failed(); len(failed) > 0 {
		return failed[0]
	}
	l := s.log()
	if l == nil {
		return errors.New("the log is gone")
	}
	if err := l.Offline(); err != nil {
		return err
	}
	e := l.Ends()
	if e.LogEnd < s.end || e.LogStart != s.start && e.LogStart != s.mayStart {
		return fmt.Errorf("the log is %+v, promised was [%d or %d, %d)", e, s.start, s.mayStart, s.end)
	}
	at := e.LogStart
	for _, b := range (&world{rng: newRandom(1)}).content(l) {
		if b.base != at || !bytes.Equal(b.data, s.want[at]) {
			return fmt.Errorf("another batch stands at %d", at)
		}
		at = b.next
	}
	if at < s.end {
		return fmt.Errorf("the batches end at %d, promised was %d", at, s.end)
	}
	return nil
}

// check opens what a crash has left, completes the moves, appends, and opens that again.
func (s *moving) check(image *crashfs.FS) error {
	again := &moving{rules: s.rules, want: map[int64][]byte{}, start: s.start, end: s.end, mayStart: s.mayStart}
	for at, data := range s.want {
		again.want[at] = data
	}
	if err := again.open(image); err != nil {
		return err
	}
	defer func() { _ = again.m.Close() }()
	if !s.born && again.log() == nil {
		return nil
	}
	if err := again.whole(); err != nil {
		return fmt.Errorf("after a start: %w", err)
	}
	for _, x := range again.m.Moves() {
		if err := again.finish(); err != nil || again.log().dir != x.To {
			return fmt.Errorf("the move to %s is in %s: %w", x.To.path, again.log().dir.path, err)
		}
	}
	if again.start = again.log().Ends().LogStart; again.start != s.start {
		again.mayStart = again.start
	}
	if err := again.append(3); err != nil {
		return err
	}
	if err := again.whole(); err != nil {
		return fmt.Errorf("after the move: %w", err)
	}
	if err := again.m.Close(); err != nil {
		return err
	}
	if err := again.open(image); err != nil {
		return err
	}
	if err := again.whole(); err != nil {
		return fmt.Errorf("after a second start: %w", err)
	}
	for _, d := range again.m.dirs {
		infos, err := image.List(d.path)
		if err != nil {
			return err
		}
		for _, in := range infos {
			if strings.HasSuffix(in.Name, futureSuffix) || strings.HasSuffix(in.Name, straySuffix) ||
				in.Name == "t-0" && again.log().dir != d {
				return fmt.Errorf("%s has %s", d.path, in.Name)
			}
		}
	}
	return nil
}

// moveEverywhere kills the process and cuts the power at calls of a log's moves, from one on.
func moveEverywhere(rules broken, from, step int) error {
	for at := from; ; at += step {
		f := crashfs.New(uint64(at))
		f.CrashDuring(at)
		s := &moving{rules: rules, want: map[int64][]byte{}}
		err := guard(func() error { return s.run(f) })
		if err != nil && !f.Crashed() {
			return fmt.Errorf("call %d: %w", at, err)
		}
		if s.m != nil {
			_ = s.m.Close()
		}
		images := []*crashfs.FS{f.KillImage(1)}
		for _, m := range crashfs.Modes() {
			images = append(images, f.PowerLossImage(m, uint64(at)))
		}
		for i, image := range images {
			if err := guard(func() error { return s.check(image) }); err != nil {
				return fmt.Errorf("call %d, image %d: %w", at, i, err)
			}
		}
		if !f.Crashed() {
			if at < 100 {
				return fmt.Errorf("the script makes only %d calls", at)
			}
			return nil
		}
	}
}

// At every moment, exactly one directory has the log, with all that was acknowledged, whatever the
// other one has.
func TestPowerLossAtEveryCallOfAMove(t *testing.T) {
	t.Parallel()
	if err := moveEverywhere(broken{}, 1, points(13)); err != nil {
		t.Fatal(err)
	}
}
