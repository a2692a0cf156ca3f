package storage

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// abortScript appends transactions to a log, some of which are aborted, and does everything to it
// that moves, cuts or rewrites their index. It ends with the first error.
type abortScript struct {
	compacts bool
	d        *Dir
	l        *Log
	next     int64
	promised int64 // no image ends below it
	cut      bool  // the log start has moved, or records were compacted away
}

func (s *abortScript) options(fsys *crashfs.FS) Options {
	return Options{FS: fsys, Holder: "pid 4711", JournalFileSize: 64 << 10, JournalBytes: 256 << 10,
		Config: func(string, ID) Config { return s.config() }}
}

func (s *abortScript) config() Config {
	c := turnsConfig()
	if s.compacts {
		c.Cleanup = Cleanup{Compact: true}
	}
	return c
}

// append appends n batches of transactions, and markers.
func (s *abortScript) append(n int) error {
	for range n {
		i := s.next
		s.next++
		id := i % 3
		p, _ := s.l.Producer(id)
		if i%4 == 3 {
			err := s.wait(&Append{Kind: Marker, Batches: record.EndTxnMarker(id, p.Epoch+1, record.ControlType(i/4%2), 0, 1)})
			if err != nil {
				return err
			}
			continue
		}
		b := record.NewBuilder(record.BatchOptions{Transactional: true,
			Producer: &record.Producer{ID: id, Epoch: p.Epoch, Sequence: -1}})
		b.Append(time.Now().UnixMilli(), []byte(fmt.Sprint(i%5)), make([]byte, 400), nil)
		data, err := b.Build()
		if err != nil {
			return err
		}
		err = s.wait(&Append{Batches: data, Permit: producers.Permit{Guard: s.l.Guard(id), CoordinatorEpoch: math.MaxInt32}})
		if err != nil {
			return err
		}
	}
	return nil
}

// wait appends and waits until the record is durable.
func (s *abortScript) wait(a *Append) error {
	a.LeaderEpoch, a.Sink = epochOf(s.l), make(sink, 1)
	s.l.Append(a, nil)
	if <-a.Sink.(sink); a.Err != nil {
		return a.Err
	}
	if err := s.l.awaitDurable(a.Next, Only{}); err != nil || s.l.durable.Load() < a.Next {
		return errors.Join(err, s.l.Err(), errDown)
	}
	s.promised = a.Next
	return nil
}

var errDown = errors.New("the record was not acknowledged")

func (s *abortScript) run(f *crashfs.FS) (err error) {
	opt := s.options(f)
	if s.d, err = OpenDir(Location{Path: "/d"}, opt); err != nil {
		return err
	}
	logs, err := s.d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: s.config()}})
	if err != nil {
		return err
	}
	s.l = lead(logs...)[0]
	s.l.Observe(idle{})
	steps := []func() error{s.l.flushAndSync, func() error { return s.d.checkpoint(nil) }, s.l.flush, s.l.roll, s.truncate, s.l.roll}
	if s.compacts {
		steps = append(steps, s.compact, s.compact)
	} else {
		steps = append(steps, s.start)
	}
	for _, step := range append(steps, s.truncate) {
		if err := errors.Join(s.append(17), step()); err != nil {
			return err
		}
	}
	return s.append(5)
}

func (s *abortScript) truncate() error {
	end := s.l.Ends().LogEnd - 7
	s.promised = end
	return s.l.Truncate(end)
}

func (s *abortScript) start() error {
	s.cut = true
	return s.l.SetLogStart(s.l.Ends().LogEnd / 3)
}

// compact runs a pass, with which records go, and markers in the next one.
func (s *abortScript) compact() error {
	s.cut = true
	s.d.compactNext()
	return s.l.Err()
}

// check opens what a crash has left.
func (s *abortScript) check(image *crashfs.FS) error {
	d, err := OpenDir(Location{Path: "/d"}, s.options(image))
	if err != nil {
		return err
	}
	defer d.Close()
	if len(d.Logs()) == 0 && s.promised == 0 {
		return nil
	}
	l := d.Logs()[0]
	if e := l.Ends(); l.Offline() != nil || e.LogEnd < s.promised {
		return fmt.Errorf("the log is %+v, promised was %d: %w", e, s.promised, l.Offline())
	}
	return readsCommitted(l, !s.cut)
}

// TestFault01PowerLossWithTransactions kills the process or cuts the power at calls of a run
// with transactions. After a start, a reader of committed records gets exactly those, and the last
// stable offset is what the batches say.
func TestFault01PowerLossWithTransactions(t *testing.T) {
	t.Parallel()
	step := race.Some(13, 61)
	for _, compacts := range []bool{false, true} {
		t.Run(fmt.Sprint("compacts ", compacts), func(t *testing.T) {
			t.Parallel()
			for call := 1; ; call += step {
				f, s := crashfs.New(uint64(call)), &abortScript{compacts: compacts}
				f.CrashDuring(call)
				err := s.run(f)
				if err != nil && !f.Crashed() {
					t.Fatalf("call %d: %v", call, err)
				}
				whole := err == nil
				if whole {
					err = readsCommitted(s.l, !s.cut)
					whole = err == nil || !f.Crashed() // the crash may come while the run is read
				}
				if whole && (err != nil || s.l.unstable.aborted.Load() < 0) {
					t.Fatalf("without a crash: %v, aborted up to %d", err, s.l.unstable.aborted.Load())
				}
				if s.d != nil {
					f.CrashAt(f.Ops())
					_ = s.d.Close()
				}
				modes := crashfs.Modes()
				for i, image := range []*crashfs.FS{f.KillImage(1), f.PowerLossImage(modes[call/step%len(modes)], uint64(call))} {
					if err := s.check(image); err != nil {
						t.Fatalf("call %d, image %d: %v", call, i, err)
					}
				}
				if whole {
					return
				}
			}
		})
	}
}
