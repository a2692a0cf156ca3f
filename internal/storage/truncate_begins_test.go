package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// resetting is a log of a leader, and what a log receives that begins at base.
type resetting struct {
	leader *Log
	base   int64
	state  []byte
	tail   [][]byte // batches from base on
	atBase string   // what is known of producers there, and at the end
	atEnd  string
}

// newResetting returns a log with three idempotent producers, one with an open transaction that
// began below base, and one that has ended one there.
func newResetting(t testing.TB) *resetting {
	t.Helper()
	l := turnsLog(t, mustOpen(t, crashfs.New(77), "sync"), 30)
	ok(t, transact(l, inTxn(t, 8, 0, 0, 10)))
	ok(t, endTxn(l, 8, 1, record.Abort, producers.Sender{Bumps: true}))
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	r := &resetting{leader: l, base: l.Ends().LogEnd}
	l.FirstUnstable(r.base)
	r.state, r.atBase = mustReport(t, l, r.base), knownBelow(t, l, r.base)
	ok(t, send(l, inTxn(t, 7, 0, 1, 10)))
	for i := 30; i < 50; i++ {
		ok(t, send(l, numbered(1+int64(i%3), int32(i/3), time.Now())))
	}
	ok(t, endTxn(l, 7, 1, record.Abort, producers.Sender{Bumps: true}))
	ok(t, send(l, numbered(50, 0, time.Now())))
	s, err := l.Read(r.base, math.MaxInt64, 1<<24, true)
	must(t, err)
	for _, p := range s.Parts {
		eachBatch(p, func(b record.Batch) { r.tail = append(r.tail, bytes.Clone(b)) })
	}
	s.Release()
	r.atEnd = knownBelow(t, l, math.MaxInt64)
	return r
}

func mustReport(t testing.TB, l *Log, end int64) []byte {
	t.Helper()
	b, err := l.ProducersBelow(end)
	must(t, err)
	return b
}

// knownBelow describes what a log knows of its producers below an offset, without times.
func knownBelow(t testing.TB, l *Log, end int64) (text string) {
	t.Helper()
	var s producers.State
	if b := mustReport(t, l, end); len(b) > 0 {
		_, err := s.Decode(b)
		must(t, err)
	}
	for id := range int64(100) {
		if p, known := s.Producer(id); known {
			p.Seen, p.Since = 0, 0
			text += fmt.Sprintf("%+v\n", p)
		}
	}
	return text
}

// follow appends the batches that a log lacks.
func (r *resetting) follow(l *Log) error {
	for _, b := range r.tail {
		if record.Batch(b).BaseOffset() < l.Ends().LogEnd {
			continue
		}
		if err := follow(l, b).Err; err != nil {
			return err
		}
	}
	return nil
}

// run lets a new log begin at base, follow, and be truncated. promised is set as soon as it must
// begin there after any fault.
func (r *resetting) run(t testing.TB, f *crashfs.FS, promised *bool) error {
	t.Helper()
	d, err := openUnled(f, "sync", func(o *Options) { o.Config = func(string, ID) Config { return turnsConfig() } })
	if err != nil {
		return err
	}
	defer d.Close()
	logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: turnsConfig()}})
	if err != nil {
		return err
	}
	l := logs[0]
	l.SetLeaderEpoch(followEpoch, false)
	x := []Truncation{{Log: l, End: r.base, Reset: true, Producers: r.state}}
	if d.Truncate(x); x[0].Err != nil {
		return x[0].Err
	}
	*promised = true
	if got := knownBelow(t, l, r.base); got != r.atBase {
		t.Fatalf("after the reset it knows\n%s, not\n%s", got, r.atBase)
	}
	if err := r.follow(l); err != nil {
		return err
	}
	if got := knownBelow(t, l, math.MaxInt64); got != r.atEnd {
		t.Fatalf("with all batches it knows\n%s, not\n%s", got, r.atEnd)
	}
	if err := l.flushAll(); err != nil {
		return err
	}
	for _, to := range []int64{12, 1, 0} {
		if err := l.Truncate(r.base + to); err != nil {
			return err
		}
		if to == 0 {
			break
		}
		if err := r.follow(l); err != nil {
			return err
		}
	}
	if got := knownBelow(t, l, math.MaxInt64); got != r.atBase || l.FirstUnstable(math.MaxInt64) != r.base-1 || d.opt.open.Load() != 1 {
		t.Fatalf("truncated to its start it knows\n%s, not\n%s; first unstable %d, %d open", got, r.atBase, l.FirstUnstable(math.MaxInt64),
			d.opt.open.Load())
	}
	return nil
}

// check opens an image, and compares what it knows at base.
func (r *resetting) check(t testing.TB, image *crashfs.FS, promised bool) error {
	t.Helper()
	d, err := openUnled(image, "sync", func(o *Options) { o.Config = func(string, ID) Config { return turnsConfig() } })
	if err != nil {
		return err
	}
	defer d.Close()
	if len(d.Logs()) == 0 && !promised {
		return nil
	}
	l := byPartition(t, d, 0)
	switch e := l.Ends(); {
	case l.Offline() != nil:
		return l.Offline()
	case e.LogEnd < r.base && promised:
		return fmt.Errorf("it begins again at %+v", e)
	case e.LogEnd < r.base:
		return nil
	}
	l.SetLeaderEpoch(followEpoch, false)
	if err := r.follow(l); err != nil {
		return err
	}
	if err := l.Truncate(r.base); err != nil {
		return err
	}
	if got := knownBelow(t, l, math.MaxInt64); got != r.atBase {
		return fmt.Errorf("at its start it knows\n%s, not\n%s", got, r.atBase)
	}
	return nil
}

// TestFault01PowerLossWhenALogBeginsAgain loses power, and kills the process, at every call of a
// reset and of truncations after it. The producers that the log received are there with its start.
func TestFault01PowerLossWhenALogBeginsAgain(t *testing.T) {
	t.Parallel()
	r := newResetting(t)
	for call := 1; ; call += points(9) {
		f := crashfs.New(uint64(call))
		f.CrashDuring(call)
		promised := false
		if err := r.run(t, f, &promised); err != nil && !f.Crashed() {
			t.Fatalf("call %d: %v", call, err)
		}
		images := []*crashfs.FS{f.KillImage(1)}
		for _, m := range crashfs.Modes() {
			images = append(images, f.PowerLossImage(m, uint64(call)))
		}
		for i, image := range images {
			if err := r.check(t, image, promised); err != nil {
				t.Fatalf("call %d, image %d: %v", call, i, err)
			}
		}
		if !f.Crashed() {
			return
		}
	}
}

// What another log reports must be whole.
func TestStateOfProducersThatCannotBeDecoded(t *testing.T) {
	r := newResetting(t)
	for name, state := range map[string][]byte{"short": r.state[:len(r.state)-1], "long": append(bytes.Clone(r.state), 0)} {
		l := turnsLog(t, mustOpen(t, crashfs.New(1), "sync"), 3)
		l.SetLeaderEpoch(followEpoch, false)
		x := []Truncation{{Log: l, End: r.base, Reset: true, Producers: state}}
		l.dir.Truncate(x)
		if e := l.Ends(); !errors.Is(x[0].Err, ErrCorrupt) || e.LogEnd != 3 {
			t.Errorf("%s: %v, %+v", name, x[0].Err, e)
		}
	}
}

// A log that is gone reports nothing, and says so.
func TestADeletedLogReportsNothingOfItsProducers(t *testing.T) {
	r := newResetting(t)
	must(t, r.leader.dir.Delete(r.leader))
	if b, err := r.leader.ProducersBelow(r.base); err == nil {
		t.Errorf("it reports %d bytes", len(b))
	}
}

// atHigh calls a function when a checkpoint asks for the high watermark.
type atHigh struct {
	noopObserver
	do func()
}

func (o *atHigh) High() (high int64, epoch int32) {
	if do := o.do; do != nil {
		o.do = nil
		do()
	}
	return -1, -1
}

// A log may begin again at its own end, which is the recovery point of the last checkpoint. A
// checkpoint that is being made meanwhile does not keep the former producers: no leader may have
// committed their batches.
func TestACheckpointBesideALogThatBeginsAgainAtItsEnd(t *testing.T) {
	leader := turnsLog(t, mustOpen(t, crashfs.New(2), "sync"), 0)
	must(t, inTurns(leader, 11, 30)) // of producers 11 to 13
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := turnsLog(t, d, 30) // of producers 1 to 3
	must(t, l.sync())
	must(t, d.commit(l))
	l.SetLeaderEpoch(followEpoch, false)
	x := Truncation{Log: l, End: 30, Reset: true, Producers: mustReport(t, leader, 30)}
	l.Observe(&atHigh{do: func() { x.Err = x.begin() }})
	must(t, d.commitMoved())
	must(t, x.Err)
	for _, m := range crashfs.Modes() {
		again, err := openUnled(disk.PowerLossImage(m, 1), "sync")
		must(t, err)
		now := byPartition(t, again, 0)
		_, former := now.Producer(1)
		_, known := now.Producer(11)
		if e := now.Ends(); e.LogStart == 30 && (former || !known) {
			t.Errorf("%v: the log begins at 30; it knows its former producers: %t, those that it received: %t", m, former, known)
		}
		must(t, again.Close())
	}
	x.Err = l.complete(x.plan, d.commit(l))
	must(t, x.Err)
}
