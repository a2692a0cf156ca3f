package replica

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/vfs"
)

// completions counts events, which the journal's goroutine reports, too.
type completions struct{ n atomic.Int64 }

func (c *completions) TryComplete(i int) bool {
	if i != purgatory.AnyKey {
		c.n.Add(1)
	}
	return false
}

func (c *completions) Expire() {}

// A reader of committed records stops at the first open transaction, and its wait ends when the
// marker is below the high watermark.
func TestACommittedReadStopsAtAnOpenTransaction(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair)
	watch := &completions{}
	p.env.park.Watch(watch, time.Now().Add(time.Hour), p.key())
	defer p.env.park.Close()
	acknowledge(p, 2, 0, 0)
	must(t, begin(t, p, AcksLeader, 1).wait(t))
	w := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 7}, Transactional: true})
	w.Append(1, nil, []byte("v"), nil)
	data, err := w.Build()
	must(t, err)
	sent := make(assigned, 1)
	for i, a := range []*storage.Append{
		{Batches: data, Permit: producers.Permit{Guard: p.log.Guard(7)}},
		{Kind: storage.Marker, Batches: record.EndTxnMarker(7, 1, record.Commit, 0, 1)},
	} {
		a.Sink = sent
		p.log.Append(a, nil)
		<-sent
		must(t, a.Err)
		waitFor(t, "it is acknowledged here", func() bool { return p.log.AckEnd() == int64(i+2) })
	}
	for _, c := range []struct{ high, stable int64 }{{1, 1}, {2, 1}, {3, 3}} {
		before := watch.n.Load()
		acknowledge(p, 2, 0, c.high)
		if e := p.Ends(); e.HighWatermark != c.high || e.LastStable != c.stable || p.Stable() != c.stable || watch.n.Load() == before {
			t.Errorf("at high watermark %d: %+v, readers were woken %d times", c.high, e, watch.n.Load()-before)
		}
		res, err := p.Read(ReadRequest{Offset: 0, MaxBytes: 1 << 20, Committed: true, CurrentEpoch: -1, FetchedEpoch: -1})
		must(t, err)
		next := int64(0)
		for _, part := range res.Parts {
			for len(part) > 0 {
				b, rest, err := record.Next(part)
				must(t, err)
				next, part = b.LastOffset()+1, rest
			}
		}
		res.Release()
		latest, err := p.ListOffset(Latest, -1, true)
		must(t, err)
		if next != c.stable || latest.Offset != c.stable || res.LastStable != c.stable {
			t.Errorf("at high watermark %d a read ends at %d, the latest offset is %d", c.high, next, latest.Offset)
		}
	}
}

// assigned receives appends that have their offsets.
type assigned chan *storage.Append

func (s assigned) OffsetsAssigned(a *storage.Append) { s <- a }

func TestNoReadReturnsRecordsAboveTheHighWatermark(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair)
	watch := &completions{}
	p.env.park.Watch(watch, time.Now().Add(time.Hour), p.key())
	defer p.env.park.Close()
	for range 3 {
		must(t, begin(t, p, AcksLeader, 2).wait(t))
	}
	for high := int64(0); high <= 6; high += 2 {
		before := watch.n.Load()
		acknowledge(p, 2, 0, high)
		if moved := high > 0; (watch.n.Load() > before) != moved {
			t.Errorf("the high watermark moved to %d: completed %d times", high, watch.n.Load()-before)
		}
		for offset := int64(0); offset <= 6; offset++ {
			res, err := p.Read(ReadRequest{Offset: offset, MaxBytes: 1 << 20, CurrentEpoch: -1, FetchedEpoch: -1})
			must(t, err)
			next := offset
			for _, part := range res.Parts {
				for len(part) > 0 {
					b, rest, err := record.Next(part)
					must(t, err)
					next, part = b.LastOffset()+1, rest
				}
			}
			if next > max(high, offset) || next < high || res.HighWatermark != high || res.LastStable != high {
				t.Errorf("read from %d at high watermark %d up to %d: %+v", offset, high, next, res)
			}
			bytes, atOnce := p.Peek(ReadRequest{Offset: offset, CurrentEpoch: -1, FetchedEpoch: -1}, 1<<20)
			if atOnce || (bytes > 0) != (res.Size > 0) || bytes != int64(res.Size) {
				t.Errorf("peek from %d: %d bytes, at once %t, read %d", offset, bytes, atOnce, res.Size)
			}
			res.Release()
		}
	}
}

func TestReadErrors(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 3, []int32{1}, []int32{1})
	must(t, begin(t, p, AcksAll, 2).wait(t))
	lead(p, 5, []int32{1}, []int32{1})
	for _, c := range []struct {
		name             string
		offset           int64
		current, fetched int32
		want             error
		epoch            int32
		end              int64
	}{
		{"fine", 0, -1, -1, nil, -1, -1},
		{"current epoch", 0, 5, -1, nil, -1, -1},
		{"older epoch", 0, 4, -1, ErrFencedEpoch, -1, -1},
		{"newer epoch", 0, 6, -1, ErrUnknownEpoch, -1, -1},
		{"below", -1, -1, -1, storage.ErrOffsetOutOfRange, -1, -1},
		{"beyond", 3, -1, -1, storage.ErrOffsetOutOfRange, -1, -1},
		{"at the end after epoch 3", 2, -1, 3, nil, -1, -1},
		{"beyond what epoch 3 had", 3, -1, 3, nil, 3, 2},
		{"after an epoch between", 2, -1, 4, nil, 3, 2},
		{"after an epoch before all", 1, -1, 2, nil, 2, 0},
		{"after an epoch to come", 2, -1, 6, storage.ErrOffsetOutOfRange, -1, -1},
		{"after the present epoch", 2, -1, 5, nil, -1, -1},
	} {
		req := ReadRequest{Offset: c.offset, MaxBytes: 1 << 20, CurrentEpoch: c.current, FetchedEpoch: c.fetched}
		res, err := p.Read(req)
		if !errors.Is(err, c.want) || res.DivergingEpoch != c.epoch || res.DivergingEnd != c.end {
			t.Errorf("%s: %v, %d ends at %d", c.name, err, res.DivergingEpoch, res.DivergingEnd)
		}
		if _, atOnce := p.Peek(req, 1); atOnce != (err != nil || c.epoch >= 0) {
			t.Errorf("%s: peek says at once: %t", c.name, atOnce)
		}
		res.Release()
	}
}

// A reader that meets damage gets an error on which it asks for the leader, if another replica may
// have the records, and learns of the damage only from the last one.
func TestDamageIsReadElsewhere(t *testing.T) {
	p := lone(t, vfs.Memory())
	damage := func() error { return p.readError(&storage.Damage{}) }
	lead(p, 1, pair, pair)
	if err := damage(); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("without a controller, no other broker will lead: %v", err)
	}
	p.env.resign = func(*Partition, int32) {}
	for name, c := range map[string]struct {
		leader int32
		isr    []int32
		want   error
	}{
		"leader": {self, pair, ErrNotLeader}, "follower": {2, pair, ErrNotLeader}, "follower out of the ISR": {2, []int32{2}, ErrNotLeader},
		"leader that is alone in sync": {self, []int32{self}, storage.ErrCorrupt},
	} {
		p.SetRole(roleFor(p, c.leader, p.LeaderEpoch()+1, pair, c.isr))
		if err := damage(); !errors.Is(err, c.want) || errors.Is(err, ErrNotLeader) && errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A leader that is alone in the ISR does not report damage that a follower has passed, since that
// one will lead.
func TestDamageIsReadAtAFollowerThatCatchesUp(t *testing.T) {
	fs := vfs.Memory()
	p := lone(t, fs)
	lead(p, 1, []int32{self}, []int32{self})
	for range 4 {
		must(t, begin(t, p, AcksAll, 1).wait(t))
	}
	must(t, p.log.Dir().Close())
	f, err := fs.Open("/d/t-0/00000000000000000000.log")
	must(t, err)
	size, err := f.Size()
	must(t, err)
	_, err = f.WriteAt([]byte{0xff}, size/2-1) // the last byte of the second batch
	must(t, err)
	p.log = openStorage(t, fs, "/d").Get(p.log.ID())
	p = newPartition(p.log, p.env)
	p.env.resign = func(*Partition, int32) {}
	lead(p, 2, pair, []int32{self})
	read := func() error {
		res, err := p.Read(ReadRequest{Offset: 1, MaxBytes: 1, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: -1})
		res.Release()
		return err
	}
	for _, c := range []struct {
		end  int64
		want error
	}{{0, storage.ErrCorrupt}, {1, storage.ErrCorrupt}, {2, ErrNotLeader}} {
		if acknowledge(p, 2, 2, c.end); !errors.Is(read(), c.want) {
			t.Errorf("a follower that ends at %d: %v, want %v", c.end, read(), c.want)
		}
	}
}

func TestAFollowersHighWatermarkIsItsLeadersAsFarAsItHasIt(t *testing.T) {
	p := lone(t, vfs.Memory())
	follow(p, 2, 1, pair, pair)
	follow := func(base int64, epoch int32, high int64) error {
		b := record.Batch(batch(t, 2).Bytes)
		b.SetBaseOffset(base)
		b.SetLeaderEpoch(epoch)
		numbered := make(chan error, 1)
		replicate(p, epoch, base, high, b, func(err error) { numbered <- err })
		return <-numbered
	}
	must(t, follow(0, 1, 1))
	waitFor(t, "the high watermark", func() bool { return p.Ends().HighWatermark == 1 })
	must(t, follow(2, 1, 9))
	waitFor(t, "its own end", func() bool { return p.Ends().HighWatermark == 4 })
	if err := follow(4, 0, 9); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("an older leader's batches: %v", err)
	}
	if err := follow(2, 1, 9); err == nil {
		t.Error("batches that it has already")
	}
	lead(p, 2, pair, pair)
	if err := follow(4, 2, 9); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("a leader follows: %v", err)
	}
}
