package storage

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// leaving is a sequence of operations on a log whose records are removed: by retention, by
// DeleteRecords, all of them, and with files that wait for their removal.
type leaving struct {
	d     *Dir
	l     *Log
	want  map[int64][]byte
	born  bool
	end   int64 // acknowledged
	start int64 // acknowledged: the log never begins below it again
	may   int64 // possible result of a move in progress
}

func leavingOptions(f *crashfs.FS, profile string) Options {
	cfg := keeping(profile, hour, -1)
	cfg.Cleanup.DeleteDelay = time.Hour
	return Options{FS: f, JournalFileSize: 64 << 10, JournalBytes: 256 << 10, OpenFiles: 4, Config: func(string, ID) Config { return cfg }}
}

func (s *leaving) append(n, size int, ts int64) error {
	for range n {
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(ts, nil, bytes.Repeat([]byte{byte(len(s.want))}, size), nil)
		data, err := b.Build()
		if err != nil {
			return err
		}
		a := send(s.l, data)
		if a.Err != nil {
			return a.Err
		}
		data.SetBaseOffset(a.Base)
		data.SetLeaderEpoch(0)
		s.want[a.Base] = data
	}
	for began := time.Now(); s.l.durable.Load() < s.l.logEnd.Load(); time.Sleep(20 * time.Microsecond) {
		s.l.dir.journal.Sync()
		if err := s.l.Err(); err != nil {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%w: not durable", errScript)
		}
	}
	s.end = s.l.durable.Load()
	return nil
}

// move runs an operation that moves the log start.
func (s *leaving) move(to int64, how func() error) error {
	s.may = to
	if err := how(); err != nil {
		return err
	}
	if got := s.l.startSynced.Load(); got != to {
		if s.d.opt.FS.(*crashfs.FS).Crashed() {
			return errScript
		}
		panic(failure{fmt.Sprintf("the log begins at %d, want %d", got, to)})
	}
	s.start = to
	return nil
}

func (s *leaving) run(f *crashfs.FS, profile string) error {
	d, err := OpenDir(Location{Path: "/d"}, leavingOptions(f, profile))
	if err != nil {
		return err
	}
	s.d = d
	logs, err := d.Create([]Spec{{ID: scriptID, Topic: "t", Config: d.opt.Config("t", scriptID)}})
	if err != nil {
		return err
	}
	s.l, s.born = logs[0], true
	s.l.Observe(idle{})
	old, young := ago(2*hour), ago(0)
	retain := func() error { d.applyRetention(); return nil }
	start := func(to int64) func() error { return func() error { return s.l.SetLogStart(to) } }
	steps := []func() error{
		func() error { return s.append(6, 700, old) },
		func() error { return s.append(3, 700, young) },
		s.l.flush,
		func() error { return s.move(6, retain) }, // three segments by time
		s.l.roll,
		func() error { return s.append(2, 300, young) },
		func() error { return s.move(7, start(7)) },
		func() error { return s.move(11, start(11)) }, // all of it, partly only in the journal
		func() error { return s.append(3, 100, old) },
		func() error { return s.move(14, retain) }, // which were never written to a segment
		func() error { return s.append(4, 900, young) },
		s.l.flushAndSync,
		func() error { return s.move(18, start(18)) }, // all of it, in segments
		func() error { return d.checkpoint(nil) },
		func() error { return s.append(2, 900, young) },
		func() error { return s.move(19, start(19)) },
		d.Close,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// check opens an image. The log begins at an acknowledged start or at that of a move in progress,
// and has all acknowledged records above it.
func (s *leaving) check(image *crashfs.FS, profile string) error {
	d, err := OpenDir(Location{Path: "/d"}, leavingOptions(image, profile))
	if err != nil {
		return err
	}
	defer d.Close()
	if len(d.Logs()) == 0 && !s.born {
		return nil
	}
	l := d.Logs()[0]
	if err := l.Offline(); err != nil {
		return err
	}
	e := l.Ends()
	if e.LogEnd < s.end || e.LogStart != s.start && e.LogStart != s.may {
		return fmt.Errorf("the log is %+v, promised was [%d or %d, %d)", e, s.start, s.may, s.end)
	}
	at := e.LogStart
	for _, b := range (&world{rng: newRandom(1)}).content(l) {
		if b.base != at || !bytes.Equal(b.data, s.want[at]) {
			return fmt.Errorf("another batch stands at %d", at)
		}
		at = b.next
	}
	infos, err := image.List(l.path)
	for _, in := range infos {
		if len(in.Name) > 8 && in.Name[len(in.Name)-8:] == ".deleted" {
			return fmt.Errorf("%s is still there after a start", in.Name)
		}
	}
	return err
}

// The power is lost, and the process is killed, at every disk call while parts of a log are
// removed.
func TestPowerLossAtEveryCallOfRetention(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"sync", "os"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at += points(9) {
				f := crashfs.New(uint64(at))
				f.CrashDuring(at)
				s := &leaving{want: map[int64][]byte{}}
				err := guard(func() error { return s.run(f, profile) })
				if err != nil && !f.Crashed() {
					t.Fatalf("call %d: %v", at, err)
				}
				if s.d != nil {
					_ = s.d.Close()
				}
				images := []*crashfs.FS{f.KillImage(1)}
				for _, m := range crashfs.Modes() {
					images = append(images, f.PowerLossImage(m, uint64(at)))
				}
				for i, image := range images {
					if err := guard(func() error { return s.check(image, profile) }); err != nil {
						t.Fatalf("call %d, image %d: %v", at, i, err)
					}
				}
				if !f.Crashed() {
					if at < 100 {
						t.Errorf("the script makes only %d calls", at)
					}
					return
				}
			}
		})
	}
}
