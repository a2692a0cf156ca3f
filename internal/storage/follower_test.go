package storage

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// at returns a batch as a leader sends it to a follower: with offset, epoch and one record for each
// timestamp.
func at(t testing.TB, base int64, epoch int32, times ...int64) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{BaseOffset: base})
	for _, ts := range times {
		b.Append(ts, nil, []byte("v"), nil)
	}
	data, err := b.Build()
	must(t, err)
	data.SetLeaderEpoch(epoch)
	return data
}

// follow appends batches from a leader to a log that it makes a follower.
func follow(l *Log, batches ...record.Batch) *Append {
	return followFrom(l, l.Ends().LogEnd, batches...)
}

// followEpoch is the leader epoch of logs that follow in tests, above those of all records.
const followEpoch = 100

// followFrom is follow for a leader whose log ended at prev.
func followFrom(l *Log, prev int64, batches ...record.Batch) *Append {
	l.SetLeaderEpoch(followEpoch, false)
	a := &Append{Kind: Assigned, LeaderEpoch: followEpoch, PrevEnd: prev, Sink: make(sink, 1)}
	for _, b := range batches {
		a.Batches = append(a.Batches, b...)
	}
	l.Append(a, nil)
	return <-a.Sink.(sink)
}

// A gap too large for an index entry, at the log start or later, affects neither reads nor lookups,
// before and after a restart.
func TestFollowerKeepsAGapOfMoreThanAnIndexCanHold(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	list := []int64{1 << 32, 1<<32 + 1, 1 << 40, 1<<40 + 1}
	for i, base := range list {
		if a := follow(l, at(t, base, 1, int64(1000+i))); a.Err != nil {
			t.Fatal(a.Err)
		}
		eventually(t, "it counts", func() bool { return l.AckEnd() == base+1 })
		must(t, l.flushAndSync())
	}
	check := func(l *Log) {
		t.Helper()
		d := l.dir
		d.memory.evictCached([]*Log{l})
		for i, base := range list {
			s, err := l.Read(base, math.MaxInt64, 1, true)
			if got := bases(s); err != nil || len(got) != 1 || got[0] != base {
				t.Errorf("read at %d: %v, %v", base, got, err)
			}
			if got, err := l.FindTime(int64(1000+i), math.MaxInt64); err != nil || got.Offset != base {
				t.Errorf("time of %d: %+v, %v", base, got, err)
			}
		}
		s, err := l.Read(0, math.MaxInt64, 1, true)
		if got := bases(s); err != nil || len(got) != 1 || got[0] != list[0] {
			t.Errorf("read at 0: %v, %v", got, err)
		}
	}
	check(l)
	if n := l.Segments(); n != 4 {
		t.Errorf("%d segments: those with a gap take one chunk", n)
	}
	check(byPartition(t, mustOpen(t, disk.PowerLossImage(crashfs.KeepSectors, 1), "sync"), 0))
}

// A read in a gap that ends below the next batch is empty because of its limit. Its reader would
// try again for ever if the answer were that the batch did not fit.
func TestReadInAGapIsNotRefusedForItsSize(t *testing.T) {
	l := makeLogs(t, mustOpen(t, crashfs.New(1), "sync"), 1, "sync")[0]
	if a := follow(l, at(t, 0, 1, 1, 2), at(t, 20, 1, 3)); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "it counts", func() bool { return l.AckEnd() == 21 })
	check := func(where string) {
		t.Helper()
		for _, limit := range []int64{3, 15, 20} {
			if s, err := l.Read(2, limit, math.MaxInt, true); err != nil || s.Size != 0 || s.Larger != 0 {
				t.Errorf("%s, limit %d: %d bytes, the next batch is larger than all memory: %d, %v", where, limit, s.Size, s.Larger, err)
			}
		}
		if s, err := l.Read(2, 21, 1, false); err != nil || s.Size != 0 || s.Larger == 0 {
			t.Errorf("%s, without memory: %d bytes, larger: %d, %v", where, s.Size, s.Larger, err)
		}
	}
	check("in memory")
	must(t, l.flushAndSync())
	l.dir.memory.evictCached([]*Log{l})
	if s, err := l.Read(2, 15, math.MaxInt, true); err != nil || s.Size != 0 || s.Larger != 0 {
		t.Errorf("on the disk: %d bytes, larger %d, %v", s.Size, s.Larger, err)
	}
}

// A follower keeps its leader's offsets and epochs. Gaps, which compaction leaves, stay. One append
// may have several epochs. An append with a batch below the log end is refused as a whole. All of
// it survives a power loss, in the journal and in segments.
func TestFollowerKeepsGapsAndEpochs(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		for _, flushed := range []bool{false, true} {
			disk := crashfs.New(1)
			d := mustOpen(t, disk, profile)
			l := makeLogs(t, d, 1, profile)[0]
			if a := follow(l, at(t, 5, 1, 1, 1), at(t, 7, 1, 1), at(t, 20, 3, 1, 1, 1)); a.Err != nil || a.Base != 5 || a.Next != 23 {
				t.Fatalf("%s: %+v", profile, a)
			}
			if a := follow(l, at(t, 40, 3, 1), at(t, 41, 7, 1)); a.Err != nil {
				t.Fatal(a.Err)
			}
			for name, bad := range map[string][]record.Batch{
				"below the end":          {at(t, 41, 7, 1)},
				"reaches over the end":   {at(t, 41, 7, 1, 1, 1)},
				"second below the end":   {at(t, 50, 7, 1), at(t, 49, 7, 1)},
				"gap that leads back":    {at(t, 60, 8, 1), at(t, 41, 8, 1)},
				"far below, other epoch": {at(t, 0, 9, 1)},
			} {
				a := follow(l, bad...)
				if e := l.Ends(); !errors.Is(a.Err, ErrGap) || e.LogEnd != 42 || l.epochs.Latest() != 7 {
					t.Errorf("%s: %v, %+v, epoch %d", name, a.Err, e, l.epochs.Latest())
				}
			}
			eventually(t, "the records count", func() bool { return l.AckEnd() == l.logEnd.Load() })
			if flushed {
				must(t, l.flushAndSync())
			}
			image := disk.KillImage(1)
			if profile == "sync" {
				image = disk.PowerLossImage(crashfs.DropUnsynced, 1)
			}
			followed(t, l)
			again := byPartition(t, mustOpen(t, image, profile), 0)
			followed(t, again)
			if a := follow(again, at(t, 100, 9, 1)); a.Err != nil || a.Next != 101 {
				t.Errorf("after a restart: %+v", a)
			}
		}
	}
}

// followed checks what TestFollowerKeepsGapsAndEpochs appended.
func followed(t *testing.T, l *Log) {
	t.Helper()
	if e := l.Ends(); e.LogEnd != 42 || l.Offline() != nil {
		t.Fatalf("%+v, %v", e, l.Offline())
	}
	var bases []int64
	for _, b := range (&world{rng: newRandom(1)}).content(l) {
		bases = append(bases, b.base)
	}
	if len(bases) != 5 || bases[0] != 5 || bases[2] != 20 || bases[4] != 41 {
		t.Errorf("batches stand at %v", bases)
	}
	for offset, want := range map[int64]int32{5: 1, 7: 1, 20: 3, 40: 3, 41: 7} {
		if got := l.EpochAt(offset); got != want {
			t.Errorf("offset %d is of epoch %d, want %d", offset, got, want)
		}
	}
	for epoch, want := range map[int32]int64{1: 20, 2: 20, 3: 41, 7: 42} {
		if _, end := l.EpochEnd(epoch); end != want {
			t.Errorf("epoch %d ends at %d, want %d", epoch, end, want)
		}
	}
	for offset, want := range map[int64]int64{0: 5, 6: 5, 8: 20, 23: 40, 30: 40, 41: 41} { // in a gap: the next batch
		s, err := l.Read(offset, 42, 1, true)
		if err != nil || s.Size == 0 {
			t.Errorf("read at %d: %d bytes, %v", offset, s.Size, err)
			continue
		}
		if b, _, err := record.Next(s.Parts[0]); err != nil || b.BaseOffset() != want {
			t.Errorf("read at %d gave %d, want %d", offset, b.BaseOffset(), want)
		}
		s.Release()
	}
}

// timed is a record in the model of lookups by time.
type timed struct {
	offset, ts int64
	epoch      int32
}

// Lookups by time agree with a list of all records: across segments, memory, gaps, a log start
// inside a batch and a limit, before and after a restart, with and without index files.
func TestLookupsByTimeAgreeWithTheRecords(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		disk := crashfs.New(seed)
		d := mustOpen(t, disk, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		cfg := testConfig("sync")
		cfg.Segment.Bytes, cfg.Segment.IndexInterval = 1500, 200
		l.Configure(cfg)
		var all []timed
		next := int64(0)
		for i := range 80 {
			times := make([]int64, 1+rng.IntN(3))
			base, epoch := next+int64(rng.IntN(2)*rng.IntN(4)), int32(i/30)
			for k := range times {
				times[k] = 1000 + int64(10*i) + rng.Int64N(300)
				all = append(all, timed{base + int64(k), times[k], epoch})
			}
			if a := follow(l, at(t, base, epoch, times...)); a.Err != nil {
				t.Fatal(a.Err)
			}
			next = base + int64(len(times))
			if i == 60 { // the other records stay in memory
				eventually(t, "the records count", func() bool { return l.AckEnd() == next })
				must(t, l.flushAndSync())
			}
		}
		eventually(t, "the records count", func() bool { return l.AckEnd() == next })
		lookups(t, l, all, rng)
		again := byPartition(t, mustOpen(t, disk.PowerLossImage(crashfs.KeepSectors, seed), "sync"), 0)
		lookups(t, again, all, rng)
		must(t, again.SetLogStart(next/3))
		lookups(t, again, all, rng)
	}
}

func lookups(t *testing.T, l *Log, all []timed, rng *rand.Rand) {
	t.Helper()
	e := l.Ends()
	for range 200 {
		ts, limit := 900+rng.Int64N(1400), e.LogEnd
		if rng.IntN(2) == 0 {
			limit = e.LogStart + rng.Int64N(e.LogEnd-e.LogStart+1)
		}
		want, top := Timestamp{-1, -1, -1}, Timestamp{-1, math.MinInt64, -1}
		for _, r := range all {
			if r.offset < e.LogStart || r.offset >= limit {
				continue
			}
			if want.Offset < 0 && r.ts >= ts {
				want = Timestamp{r.offset, r.ts, r.epoch}
			}
			if r.ts > top.Time {
				top = Timestamp{r.offset, r.ts, r.epoch}
			}
		}
		if got, err := l.FindTime(ts, limit); err != nil || got != want {
			t.Fatalf("time %d below %d in %+v: %+v, want %+v: %v", ts, limit, e, got, want, err)
		}
		if top.Offset < 0 {
			top.Time = -1
		}
		if limit < e.LogEnd {
			continue
		}
		if got, err := l.MaxTime(limit); err != nil || got != top {
			t.Fatalf("largest time below %d in %+v: %+v, want %+v: %v", limit, e, got, top, err)
		}
	}
}

// I9: an append was accepted in a leader epoch and reaches the log after the next epoch began. It
// is refused, since its epoch would contradict the epoch cache.
func TestI9AppendOfAnEndedEpochIsRefused(t *testing.T) {
	l := makeLogs(t, mustOpen(t, crashfs.New(1), "sync"), 1, "sync")[0]
	put(t, l, 1, 100)
	l.SetLeaderEpoch(3, true)
	a := &Append{Batches: testBatch(t, 100, nil), LeaderEpoch: 0, Sink: make(sink, 1)}
	l.Append(a, nil)
	if <-a.Sink.(sink); !errors.Is(a.Err, ErrFencedEpoch) || l.Ends().LogEnd != 1 {
		t.Errorf("append under epoch 0 after epoch 3 began: %v, log end %d", a.Err, l.Ends().LogEnd)
	}
}

// A log leads an epoch without a record, and a checkpoint names that epoch. It then follows a
// leader with more records of the epoch before. After a crash, its records have their epochs.
func TestAnEpochWithoutARecordDoesNotComeBack(t *testing.T) {
	if wrong := epochComesBack(t, broken{}); wrong != "" {
		t.Error(wrong)
	}
}

// epochComesBack returns what is wrong with the epochs of such a log.
func epochComesBack(t *testing.T, b broken) string {
	t.Helper()
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	two := func(leader int32, base int64) {
		l.SetLeaderEpoch(leader, false)
		a := &Append{Kind: Assigned, LeaderEpoch: leader, PrevEnd: base, Batches: at(t, base, 1, 7, 7), Sink: make(sink, 1)}
		l.Append(a, nil)
		if <-a.Sink.(sink); a.Err != nil {
			t.Fatal(a.Err)
		}
		eventually(t, "the records count", func() bool { return l.AckEnd() == base+2 })
	}
	two(2, 0)
	must(t, l.flushAndSync())
	l.SetLeaderEpoch(3, true)
	must(t, d.commit(l))
	two(4, 2)
	after, err := openDir(disk.PowerLossImage(crashfs.KeepSectors, 1), "sync", func(o *Options) { o.broken = b })
	must(t, err)
	defer after.Close()
	l = byPartition(t, after, 0)
	if epoch, end := l.EpochEnd(1); epoch != 1 || end != 4 || l.EpochAt(2) != 1 {
		return fmt.Sprintf("epoch %d ends at %d, and the record at 2 has epoch %d", epoch, end, l.EpochAt(2))
	}
	return ""
}
