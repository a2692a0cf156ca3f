package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
)

// written is a record as it was appended.
type written struct{ key, value []byte }

// compactScript is a fixed sequence of operations on a log with compaction.
type compactScript struct {
	profile  string
	broken   broken
	d        *Dir
	l        *Log
	all      []written // by offset
	promised int64
	least    int64 // lowest end that a truncation may leave
	start    [2]int64
	born     bool
}

func (s *compactScript) options(f *crashfs.FS) Options {
	cfg := compacted(s.profile)
	cfg.Segment.Bytes, cfg.Cleanup.Tombstones = 1<<10, 0
	return Options{FS: f, JournalFileSize: 64 << 10, JournalBytes: 256 << 10, DeferredBytes: 1 << 20, OpenFiles: 4,
		broken: s.broken, Config: func(string, ID) Config { return cfg }}
}

// set writes one record for each of n keys, starting with first. If tombstones is set, every third
// record is one.
func (s *compactScript) set(n, first int, tombstones bool) func() error {
	return func() error {
		for i := range n {
			w := written{key: fmt.Append(nil, "key ", first+i), value: bytes.Repeat([]byte{byte(len(s.all))}, 60)}
			if tombstones && i%3 == 0 {
				w.value = nil
			}
			b := record.NewBuilder(record.BatchOptions{})
			b.Append(int64(len(s.all)+1), w.key, w.value, nil)
			data, err := b.Build()
			if err != nil {
				return err
			}
			s.all = append(s.all, w)
			if a := send(s.l, data); a.Err != nil {
				return a.Err
			}
		}
		for begin := time.Now(); s.l.AckEnd() < s.l.logEnd.Load(); time.Sleep(20 * time.Microsecond) {
			if err := s.l.Err(); err != nil {
				return err
			}
			if time.Since(begin) > patience {
				return fmt.Errorf("%w: not acknowledged", errScript)
			}
		}
		s.note()
		return nil
	}
}

func (s *compactScript) note() { s.promised = max(s.promised, s.l.durable.Load()) }

// sealAll writes everything to sealed segments.
func (s *compactScript) sealAll() error {
	if err := s.l.flushAndSync(); err != nil {
		return err
	}
	return s.l.roll()
}

// compact runs a pass, which must succeed unless the disk dies.
func (s *compactScript) compact() error {
	s.l.attempts.retry = time.Time{}
	if !s.d.compactNext() {
		return fmt.Errorf("%w: nothing was due", errScript)
	}
	if err := s.l.Err(); err != nil {
		return err
	}
	if s.l.attempts.failures > 0 {
		return errScript
	}
	s.l.dir.memory.evict(s.l, math.MaxInt64, 0)
	return nil
}

func (s *compactScript) run(f *crashfs.FS) error {
	d, err := OpenDir(Location{Path: "/d"}, s.options(f))
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
	for _, step := range []func() error{
		s.set(12, 0, false), s.sealAll,
		s.set(12, 4, false), s.sealAll,
		s.compact,
		s.set(6, 2, true), s.sealAll,
		s.set(2, 0, false), // the journal has more than the segments
		s.compact,
		func() error { return s.d.checkpoint(nil) },
		s.sealAll,
		s.compact, // tombstones are also removed
		func() error { s.start[1] = 5; return s.l.SetLogStart(5) },
		func() error { s.start[0] = 5; return nil },
		s.set(6, 8, false), s.sealAll,
		s.compact,
		s.set(3, 3, false),
		func() error { s.promised, s.least = 0, s.l.Ends().LogEnd-2; return s.l.Truncate(s.least) },
		func() error { s.all = s.all[:s.least]; s.promised = s.least; return nil },
		s.set(12, 0, false), s.sealAll,
		s.compact,
		func() error { return s.d.Close() },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// crashed records what was promised when the disk died.
func (s *compactScript) crashed(failed bool) {
	if s.l == nil {
		return
	}
	s.note()
	if failed && s.least > 0 && s.promised > s.least && int64(len(s.all)) > s.least {
		s.promised = s.least
	}
}

// check opens an image and compares it with what was written.
func (s *compactScript) check(image *crashfs.FS) error {
	d, err := OpenDir(Location{Path: "/d"}, s.options(image))
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
	if e.LogEnd < s.promised || e.LogStart != s.start[0] && e.LogStart != s.start[1] {
		return fmt.Errorf("the log is %+v, promised was %d, start %v", e, s.promised, s.start)
	}
	if err := s.compare(l, e); err != nil {
		return err
	}
	// Another pass over the recovered log must keep the same records.
	l.Observe(idle{})
	if err := l.flushAndSync(); err != nil {
		return err
	}
	if err := l.roll(); err != nil {
		return err
	}
	d.compactNext()
	if l.attempts.failures > 0 {
		return errors.New("a pass over what was found failed")
	}
	l.dir.memory.evict(l, math.MaxInt64, 0)
	return s.compare(l, e)
}

// compare reads a log from its start: its records are among those written, including the last one
// of each key.
func (s *compactScript) compare(l *Log, e Ends) error {
	want, got := map[string]string{}, map[string]string{}
	put := func(m map[string]string, w written) {
		if delete(m, string(w.key)); w.value != nil {
			m[string(w.key)] = string(w.value)
		}
	}
	for _, w := range s.all[e.LogStart:e.LogEnd] {
		put(want, w)
	}
	at := e.LogStart
	for {
		slice, err := l.Read(at, e.LogEnd, 3000, true)
		if err != nil {
			return err
		}
		for _, p := range slice.Parts {
			eachBatch(p, func(b record.Batch) {
				at = b.LastOffset() + 1
				if e := b.Each(record.Limits{}, func(r record.Record) error {
					w := s.all[r.Offset]
					if !bytes.Equal(w.key, r.Key) || !bytes.Equal(w.value, r.Value) || r.Timestamp != r.Offset+1 {
						return fmt.Errorf("another record stands at %d", r.Offset)
					}
					if r.Offset >= l.Ends().LogStart {
						put(got, w)
					}
					return nil
				}); e != nil && err == nil {
					err = e
				}
			})
		}
		n := slice.Size
		slice.Release()
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("a reader of %+v sees %d keys instead of %d", e, len(got), len(want))
	}
	return nil
}

// images returns what a start may find after the disk died.
func images(f *crashfs.FS, seed uint64) []*crashfs.FS {
	list := []*crashfs.FS{f.KillImage(1)}
	for _, m := range crashfs.Modes() {
		list = append(list, f.PowerLossImage(m, seed))
	}
	for i := range uint64(3) { // names survive in several ways
		list = append(list, f.PowerLossImage(crashfs.KeepSectors, seed*7+i))
	}
	return list
}

// crashEverywhere runs the script with a crash at disk calls from one on: see points, or at all of
// them if a rule is removed. It returns the errors that the starts reveal.
func crashEverywhere(profile string, rules broken, from int) error {
	step := points(9)
	if rules != (broken{}) {
		step = 1
	}
	for at := from; ; at += step {
		f := crashfs.New(uint64(at))
		f.CrashDuring(at)
		s := &compactScript{profile: profile, broken: rules}
		err := s.run(f)
		if err != nil && !f.Crashed() {
			return fmt.Errorf("call %d: %w", at, err)
		}
		s.crashed(err != nil)
		if s.d != nil {
			_ = s.d.Close()
		}
		s.broken = broken{}
		for i, image := range images(f, uint64(at)) {
			if err := guard(func() error { return s.check(image) }); err != nil {
				return fmt.Errorf("call %d, image %d: %w", at, i, err)
			}
		}
		if !f.Crashed() {
			if at < 200 {
				return fmt.Errorf("the script makes only %d calls", at)
			}
			return nil
		}
	}
}

// TestFault21CompactionAndPowerLoss loses power, and kills the process, at every disk call in the
// life of a compacted log.
func TestFault21CompactionAndPowerLoss(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"sync", "os"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			must(t, crashEverywhere(profile, broken{}, 1))
		})
	}
}

// TestFault21CrashInsideRecovery crashes a start that finds a swap in progress at each of its
// calls. The next start finds everything.
func TestFault21CrashInsideRecovery(t *testing.T) {
	t.Parallel()
	// Every ninth call, then the ones between: which calls belong to a swap varies between runs.
	var calls []int
	for first := 80; first < 89; first++ {
		for at := first; at < 400; at += 9 {
			calls = append(calls, at)
		}
	}
	tried, most := 0, race.Some(4, 1)
	for _, at := range calls {
		if tried == most {
			break
		}
		f := crashfs.New(uint64(at))
		f.CrashDuring(at)
		s := &compactScript{profile: "sync"}
		err := s.run(f)
		s.crashed(err != nil)
		if s.d != nil {
			_ = s.d.Close()
		}
		if s.l == nil || !swapping(f.KillImage(1)) {
			continue
		}
		tried++
		for call, crashed := 1, true; crashed; call += points(7) {
			crashed = false
			for i, first := range []*crashfs.FS{f.KillImage(1), f.PowerLossImage(crashfs.KeepSectors, uint64(call)),
				f.PowerLossImage(crashfs.DropUnsynced, 1)} {
				first.CrashDuring(call)
				if d, err := OpenDir(Location{Path: "/d"}, s.options(first)); err == nil {
					_ = d.Close()
				} else if !first.Crashed() {
					t.Fatalf("crash at %d, start: %v", at, err)
				}
				crashed = crashed || first.Crashed()
				for _, second := range []*crashfs.FS{first.KillImage(2), first.PowerLossImage(crashfs.KeepSectors, uint64(call))} {
					if err := guard(func() error { return s.check(second) }); err != nil {
						t.Fatalf("crash at %d, image %d, and at call %d of the start: %v", at, i, call, err)
					}
				}
			}
		}
	}
	if tried < most {
		t.Errorf("only %d crashes came into a swap", tried)
	}
}

// swapping reports whether the log's directory has a segment that is not in its place yet.
func swapping(f *crashfs.FS) bool {
	infos, err := f.List("/d/t-0")
	return err == nil && slices.ContainsFunc(infos, func(in vfs.Info) bool { return strings.HasSuffix(in.Name, segment.SwapSuffix) })
}
