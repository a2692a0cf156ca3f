package replica

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestDeleteRecords(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair)
	for range 4 {
		must(t, begin(t, p, AcksLeader, 2).wait(t))
	}
	acknowledge(p, 2, 0, 6)
	watch := &completions{}
	p.env.park.Watch(watch, time.Now().Add(time.Hour), p.key())
	defer p.env.park.Close()
	compact, both := p.log.Config(), p.log.Config()
	compact.Cleanup.Compact = true
	both.Cleanup.Compact, both.Cleanup.Delete = true, true
	for _, c := range []struct {
		name   string
		offset int64
		cfg    *storage.Config
		low    int64
		err    error
	}{
		{"some", 3, nil, 3, nil},
		{"fewer than are gone", 1, nil, 3, nil},
		{"none", 0, nil, 3, nil},
		{"above the high watermark", 7, nil, -1, storage.ErrOffsetOutOfRange},
		{"far above it", math.MaxInt64, nil, -1, storage.ErrOffsetOutOfRange},
		{"a negative offset", -2, nil, -1, storage.ErrOffsetOutOfRange},
		{"of a compacted topic", 4, &compact, 4, nil}, // only clients may not
		{"of one that is deleted from, too", 4, &both, 4, nil},
		{"up to the high watermark", HighWatermark, nil, 6, nil},
		{"once more", HighWatermark, nil, 6, nil},
	} {
		if c.cfg != nil {
			p.log.Configure(*c.cfg)
		}
		before, old := watch.n.Load(), p.Ends().LogStart
		low, err := p.DeleteRecords(t.Context(), c.offset)
		if low != c.low || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, low, err, c.low, c.err)
		}
		e := p.Ends()
		if e.LogStart > e.LastStable || e.LastStable > e.HighWatermark || e.HighWatermark != 6 || e.LogEnd != 8 || e.LogStart < old {
			t.Errorf("%s: %+v", c.name, e)
		}
		if e.LogStart > old && watch.n.Load() == before {
			t.Errorf("%s: the waiting operation was not completed", c.name)
		}
	}
	for offset, want := range map[int64]error{5: storage.ErrOffsetOutOfRange, 6: nil, 8: nil, 9: storage.ErrOffsetOutOfRange} {
		r, err := p.Read(ReadRequest{Offset: offset, MaxBytes: 1000, CurrentEpoch: -1, FetchedEpoch: -1})
		if !errors.Is(err, want) || want == nil && err != nil || r.LogStart != 6 || r.HighWatermark != 6 {
			t.Errorf("read %d: %v, %+v", offset, err, r)
		}
		r.Release()
	}
	if at, err := p.ListOffset(Earliest, -1, false); err != nil || at.Offset != 6 {
		t.Errorf("earliest: %+v, %v", at, err)
	}
	follow(p, 2, 1, pair, pair)
	if _, err := p.DeleteRecords(t.Context(), 6); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower: %v", err)
	}
}

// Retention moves the log start without involving the partition. A reader that waits below it is
// answered nevertheless, even if the checkpoint fails.
func TestRetentionAnswersWaitingReaders(t *testing.T) {
	fs := errfs.New(vfs.Memory())
	p := lone(t, fs)
	lead(p, 0, pair, pair)
	must(t, begin(t, p, AcksLeader, 4).wait(t))
	watch := &completions{}
	p.env.park.Watch(watch, time.Now().Add(time.Hour), p.key())
	defer p.env.park.Close()
	before := watch.n.Load()
	must(t, moveStart(p.log, 2))
	if watch.n.Load() == before {
		t.Error("the waiting operation was not completed")
	}
	fault := fs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Err: syscall.EIO})
	defer fault.Off()
	before = watch.n.Load()
	if err := moveStart(p.log, 3); !errors.Is(err, storage.ErrFailed) || watch.n.Load() == before {
		t.Errorf("with a failed checkpoint: %v, completed %d times", err, watch.n.Load()-before)
	}
}

// A request for many partitions costs one checkpoint, and each partition has its own outcome.
func TestDeleteRecordsOfManyPartitions(t *testing.T) {
	disk := crashfs.New(1)
	fs, c := errfs.New(disk), newCluster()
	l := start(t, fs, c)
	const n = 20
	c.topic("a", idA, n)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	list := []Deletion{{Topic: idB, Offset: 1}, {Topic: idA, Partition: n, Offset: 1}}
	for i := range int32(n) {
		grow(t, l.partition(t, idA, i))
		list = append(list, Deletion{Topic: idA, Partition: i, Offset: HighWatermark})
	}
	list[2].Offset = 2 // above the high watermark
	compact := l.partition(t, idA, 1).log
	cfg := compact.Config()
	cfg.Cleanup.Compact, cfg.Cleanup.Delete = true, false
	compact.Configure(cfg)
	checkpoints := 0
	fs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/checkpoint/*", Before: func(errfs.Call) { checkpoints++ }})
	l.DeleteRecords(t.Context(), list)
	if checkpoints != 1 {
		t.Errorf("%d checkpoints", checkpoints)
	}
	for i, d := range list {
		want, low := error(nil), int64(1)
		switch i {
		case 0, 1:
			want, low = ErrUnknownPartition, -1
		case 2:
			want, low = storage.ErrOffsetOutOfRange, -1
		case 3:
			want, low = ErrPolicy, -1
		}
		if d.Low != low || !errors.Is(d.Err, want) || want == nil && d.Err != nil {
			t.Errorf("%d: %+v", i, d)
		}
	}
	l.DeleteRecords(t.Context(), list[4:]) // a repetition: it is already durable
	if checkpoints != 1 {
		t.Errorf("%d checkpoints for what is gone", checkpoints-1)
	}
	again := start(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), c)
	for _, log := range again.storage.Logs() {
		if e, gone := log.Ends(), log.ID().Partition > 1; e.LogEnd != 1 || (e.LogStart == 1) != gone {
			t.Errorf("%s after a loss of power: %+v", log, e)
		}
	}
	l.DeleteRecords(t.Context(), nil)
}

// A deletion that could not be made durable is reported as failed, and so is a repetition of the
// request.
func TestDeleteRecordsThatIsNotDurable(t *testing.T) {
	fs, c := errfs.New(crashfs.New(1)), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	p := l.partition(t, idA, 0)
	grow(t, p)
	fs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/checkpoint/*", Err: syscall.EIO})
	for range 2 {
		if low, err := p.DeleteRecords(t.Context(), HighWatermark); low != -1 || !errors.Is(err, storage.ErrFailed) {
			t.Errorf("%d, %v", low, err)
		}
	}
	fs.Clear()
	if low, err := p.DeleteRecords(t.Context(), HighWatermark); low != 1 || err != nil {
		t.Errorf("%d, %v", low, err)
	}
}
