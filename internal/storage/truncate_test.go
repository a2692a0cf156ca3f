package storage

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// numbered returns the batch of a producer with a sequence and a timestamp.
func numbered(id int64, seq int32, at time.Time) []byte {
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: id, Sequence: seq}})
	b.Append(at.UnixMilli(), nil, bytes.Repeat([]byte{byte(seq)}, 600), nil)
	data, err := b.Build()
	if err != nil {
		panic(failure{err.Error()})
	}
	return data
}

// inTurns appends n batches of the producers first to first+2 in turn, after the existing ones, and
// writes them to segments.
func inTurns(l *Log, first int64, n int) error {
	lead(l)
	for range n {
		at := l.Ends().LogEnd
		a := &Append{Batches: numbered(first+at%3, int32(at/3), time.Now()), Sink: make(sink, 1)}
		l.Append(a, nil)
		if <-a.Sink.(sink); a.Err != nil {
			return a.Err
		}
	}
	return l.flushAll()
}

// turnsLog creates a log of small segments with n batches of inTurns(l, 1, n).
func turnsLog(t testing.TB, d *Dir, n int) *Log {
	t.Helper()
	l := makeLogs(t, d, 2, "sync")[0]
	l.Configure(turnsConfig())
	must(t, inTurns(l, 1, n))
	return l
}

func turnsConfig() Config {
	cfg := testConfig("sync")
	cfg.Segment.Bytes = 4 << 10
	return cfg
}

// remembered fails unless exactly the last five batches of each producer of inTurns(l, 1, n) are
// known as duplicates.
func remembered(l *Log) error {
	end := l.Ends().LogEnd
	for at := max(end-15, l.Ends().LogStart); at < end; at++ {
		a := &Append{Batches: numbered(1+at%3, int32(at/3), time.Now()), Sink: make(sink, 1)}
		l.Append(a, nil)
		if <-a.Sink.(sink); a.Err != nil || !a.Duplicate || a.Base != at {
			return fmt.Errorf("a retry of batch %d of a log that ends at %d: %+v, %w", at, end, a.Base, a.Err)
		}
	}
	return nil
}

// While a truncation reads, the state of the log stays available: checkpoints for other logs end,
// and epoch lookups are answered.
func TestTruncationReadsWithoutHoldingOthers(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := turnsLog(t, d, 20)
	other := byPartition(t, d, 1)
	put(t, other, 2, 100)
	hold, let := gated(t)
	reads := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/t-0/*.log", Before: func(errfs.Call) { <-hold }})
	cut, moved := make(chan error, 1), make(chan error, 1)
	go func() { cut <- l.Truncate(18) }()
	eventually(t, "the truncation reads", func() bool { return reads.Hits() > 0 })
	go func() {
		l.EpochAt(3)
		moved <- other.SetLogStart(1)
	}()
	eventually(t, "the start of another log moves", func() bool { return len(moved) > 0 })
	if err := <-moved; err != nil || l.Ends().LogEnd != 20 {
		t.Errorf("%v; the log that is being cut is %+v", err, l.Ends())
	}
	let()
	if err := <-cut; err != nil || l.Ends().LogEnd != 18 {
		t.Errorf("%v; after the truncation the log is %+v", err, l.Ends())
	}
}

// A truncation that cannot read leaves the log unchanged, whatever checkpoints follow: the log
// accepts records, and a start finds every batch and recognizes its retry.
func TestTruncationThatCannotReadChangesNothing(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	l := turnsLog(t, d, 20)
	put(t, byPartition(t, d, 1), 2, 100)
	fault := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/t-0/*.log", Err: syscall.EIO})
	if err := l.Truncate(18); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	fault.Off()
	must(t, byPartition(t, d, 1).SetLogStart(1))
	again := byPartition(t, mustOpen(t, disk.KillImage(1), "sync"), 0)
	for _, l := range []*Log{l, again} {
		if err := errors.Join(remembered(l), inTurns(l, 1, 1)); err != nil || l.Ends().LogEnd != 21 {
			t.Errorf("%+v, %v", l.Ends(), err)
		}
	}
}

// Many logs are cut with one checkpoint, each with its own result.
func TestTruncationsShareACheckpoint(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync", func(o *Options) { o.JournalBytes = 16 << 20 }) // no sweep writes one
	logs := makeLogs(t, d, 30, "sync")
	cuts := make([]Truncation, len(logs))
	for i, l := range logs {
		put(t, l, 4, 100)
		cuts[i] = Truncation{Log: l, End: int64(i % 6), Reset: i == 12}
	}
	must(t, d.Delete(logs[29]))
	before := d.lastSeq()
	(&Manager{}).Truncate(cuts)
	if n := d.lastSeq() - before; n != 1 {
		t.Errorf("%d checkpoints", n)
	}
	for i, c := range cuts {
		if i == 29 {
			if !errors.Is(c.Err, ErrClosed) {
				t.Errorf("a deleted log: %v", c.Err)
			}
			continue
		}
		if e := c.Log.Ends(); c.Err != nil || e.LogEnd != min(c.End, 4) || c.Log.Err() != nil {
			t.Errorf("%s is %+v after a cut to %d: %v, %v", c.Log, e, c.End, c.Err, c.Log.Err())
		}
		put(t, c.Log, 1, 100)
	}
}

// If a log is deleted, or its directory closes, while its truncation waits for the checkpoint, both
// the truncation and the deletion or the stop end as usual.
func TestTruncationBesideADeletionOrAStop(t *testing.T) {
	for _, stop := range []bool{false, true} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "sync")
		l := turnsLog(t, d, 20)
		hold, let := gated(t)
		write := errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Count: 1, Before: func(errfs.Call) { <-hold }})
		cut, ended := make(chan error, 1), make(chan error, 1)
		go func() { cut <- l.Truncate(18) }()
		// The write may be that of a checkpoint in the background, for which the truncation waits.
		eventually(t, "the checkpoint is written", func() bool { return write.Hits() > 0 && errors.Is(l.Err(), ErrFailed) })
		if a := send(l, numbered(50, 0, time.Now())); !errors.Is(a.Err, ErrFailed) {
			t.Errorf("an append meanwhile: %v", a.Err)
		}
		go func() {
			if stop {
				ended <- d.Close()
			} else {
				ended <- d.Delete(l)
			}
		}()
		eventually(t, "the other one is under way", func() bool { return errors.Is(l.Err(), ErrClosed) })
		let()
		if err := <-ended; err != nil {
			t.Errorf("stop %v: %v", stop, err)
		}
		if err := <-cut; err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("stop %v: the truncation: %v", stop, err)
		}
		_ = d.Close()
		again := mustOpen(t, disk, "sync").Logs()
		if stop {
			holds(t, byPartition(t, again[0].dir, 0), 18)
		} else if len(again) != 1 {
			t.Errorf("%d logs after one of two was deleted", len(again))
		}
	}
}

// A truncation that was decided under another leader epoch or role does not happen.
func TestTruncationIsFenced(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	if a := follow(l, at(t, 0, 1, 1), at(t, 1, 1, 1)); a.Err != nil {
		t.Fatal(a.Err)
	}
	cut := func(epoch int32) error {
		cuts := []Truncation{{Log: l, End: 1, Only: Only{Is: true, Epoch: epoch}}}
		d.Truncate(cuts)
		return cuts[0].Err
	}
	if err := cut(followEpoch - 1); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("in an earlier epoch: %v", err)
	}
	l.SetLeaderEpoch(followEpoch+1, true)
	if err := cut(followEpoch + 1); !errors.Is(err, ErrFencedEpoch) || l.Ends().LogEnd != 2 {
		t.Errorf("of a leader: %v, %+v", err, l.Ends())
	}
	l.SetLeaderEpoch(followEpoch+2, false)
	if err := cut(followEpoch + 2); err != nil || l.Ends().LogEnd != 1 {
		t.Errorf("of a follower: %v, %+v", err, l.Ends())
	}
}
