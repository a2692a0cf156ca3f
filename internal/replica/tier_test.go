package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// tiered is a partition whose records were copied: another log has them as the store does.
type tiered struct {
	store  *Partition
	during func() // is called after the store has read
}

func (s *tiered) Read(_ context.Context, _ metadata.TopicPartition, t *metadata.Tier, offset, limit int64, max int, atLeastOne bool) (
	storage.Slice, error) {
	if offset < t.Start {
		return storage.Slice{}, storage.ErrOffsetOutOfRange
	}
	x, err := s.store.log.Read(offset, min(limit, t.End), max, atLeastOne)
	if do := s.during; do != nil {
		s.during = nil
		do()
	}
	return x, err
}

func (s *tiered) Aborted(_ context.Context, _ metadata.TopicPartition, t *metadata.Tier, from, limit int64) (
	list []txnindex.Entry, more bool, err error) {
	x, err := s.store.log.Read(from, limit, 1<<20, true)
	if err != nil {
		return nil, false, err
	}
	defer x.Release()
	all, err := s.store.log.AbortedIn(from, &x, 1000)
	for _, e := range all {
		if e.First < t.End { // an object has those with records in it, wherever their markers are
			list = append(list, e)
		}
	}
	return list, true, err
}

func (s *tiered) FindTime(_ context.Context, _ metadata.TopicPartition, t *metadata.Tier, ts int64) (storage.Timestamp, error) {
	return s.store.log.FindTime(ts, t.End)
}

func (s *tiered) MaxTime(_ context.Context, _ metadata.TopicPartition, t *metadata.Tier) (storage.Timestamp, error) {
	return s.store.log.MaxTime(t.End)
}

// border returns a partition that leads alone, whose log and store have the same records: two of a
// transaction that is aborted at offset 5, and others.
func border(t *testing.T) (*Partition, *tiered) {
	s := &tiered{store: lone(t, vfs.Memory())}
	p := lone(t, vfs.Memory())
	for _, x := range []*Partition{s.store, p} {
		x.env.tier = TierOptions{Reads: s, ReadWait: time.Minute, LookupWait: time.Minute}
		lead(x, 0, []int32{self}, []int32{self})
		awaitNote(t, x)
		fill := func(a *storage.Append) {
			sent := make(assigned, 1)
			a.Sink = sent
			x.log.Append(a, nil)
			<-sent
			must(t, a.Err)
		}
		plain := func() {
			must(t, begin(t, x, AcksLeader, 1).wait(t))
		}
		plain() // 0
		for range 2 {
			w := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 7, Sequence: int32(x.log.Ends().LogEnd - 1)},
				Transactional: true})
			w.Append(100, nil, []byte("v"), nil)
			data, err := w.Build()
			must(t, err)
			fill(&storage.Append{Batches: data, Permit: producers.Permit{Guard: x.log.Guard(7)}}) // 1 and 2
		}
		plain()                                                                                               // 3
		plain()                                                                                               // 4
		fill(&storage.Append{Kind: storage.Marker, Batches: record.EndTxnMarker(7, 1, record.Abort, 0, 200)}) // 5
		for range 4 {
			plain() // 6 to 9
		}
		waitFor(t, "all is committed", func() bool { return x.Ends().LastStable == 10 })
	}
	return p, s
}

func tierTo(p *Partition, start, end int64) {
	p.setTier(&metadata.Tier{Manifest: metadata.ID{1}, Start: start, End: end, Epochs: []metadata.EpochStart{{Epoch: 0, Start: 0}}})
}

func abortedAt(t *testing.T, p *Partition, offset int64) int {
	t.Helper()
	res, err := p.Read(ReadRequest{Offset: offset, MaxBytes: 1, AtLeastOne: true, Committed: true, CurrentEpoch: -1, FetchedEpoch: -1})
	must(t, err)
	defer res.Release()
	if res.Size == 0 {
		t.Fatalf("nothing at %d: %+v", offset, p.Ends())
	}
	return len(res.Aborted)
}

// A reader of committed records from the store learns of a transaction that was aborted, wherever
// its marker is: in the store, or only in the local log.
func TestAbortedTransactionsAcrossTheBorder(t *testing.T) {
	for end := int64(3); end <= 10; end++ {
		p, _ := border(t)
		tierTo(p, 0, end)
		must(t, moveStart(p.log, min(3, end)))
		for offset, want := range []int{1, 1, 1} {
			if offset == 0 {
				want = 0 // the batch at 0 is not of the transaction
			}
			if n := abortedAt(t, p, int64(offset)); n != want {
				t.Errorf("copied up to %d: a read at %d has %d aborted transactions", end, offset, n)
			}
		}
	}
}

// Local retention removes the marker of a transaction from the disk while its records are read from
// the store.
func TestRetentionDuringAReadOfTheStore(t *testing.T) {
	p, s := border(t)
	tierTo(p, 0, 4)
	must(t, moveStart(p.log, 4))
	s.during = func() {
		tierTo(p, 0, 10)
		must(t, moveStart(p.log, 9))
	}
	res, err := p.Read(ReadRequest{Offset: 1, MaxBytes: 1, AtLeastOne: true, Committed: true, CurrentEpoch: -1, FetchedEpoch: -1})
	if err != nil || res.Size > 0 && len(res.Aborted) != 1 {
		t.Errorf("%d bytes with %d aborted transactions, %v", res.Size, len(res.Aborted), err)
	}
	res.Release()
	if n := abortedAt(t, p, 1); n != 1 {
		t.Errorf("%d aborted transactions", n)
	}
}

// A leader that compares its log cuts off records while they are read from the store. The reader
// does not get them.
func TestACutDuringAReadOfTheStore(t *testing.T) {
	p, s := border(t)
	tierTo(p, 0, 9)
	must(t, moveStart(p.log, 4))
	s.during = func() { tierTo(p, 0, 6) }
	res, err := p.Read(ReadRequest{Offset: 1, MaxBytes: 1 << 20, CurrentEpoch: -1, FetchedEpoch: -1})
	must(t, err)
	defer res.Release()
	if next := res.Next(); res.Size == 0 || next > 6 {
		t.Errorf("%d bytes, up to offset %d", res.Size, next)
	}
}

// Below the local log there may be records that an unclean election has undone: of recovered
// metadata, and until the leader has compared. Reads and searches get none of them.
func TestUndoneRecordsBelowTheLocalLog(t *testing.T) {
	p, _ := border(t)
	follow(p, 2, 1, pair, pair)
	must(t, cut(p.log, 6, false))
	lead(p, 4, []int32{self}, []int32{self})
	awaitNote(t, p)
	for range 6 {
		must(t, begin(t, p, AcksLeader, 1).wait(t)) // 6 to 11
	}
	must(t, moveStart(p.log, 9))
	generation := metadata.ID{2}
	p.env.generation.Store(&generation)
	for name, x := range map[string]struct {
		generation metadata.ID
		unclean    int32
	}{"recovered": {metadata.ID{1}, 0}, "not compared": {generation, 4}} {
		r := *p.role.Load()
		r.unclean = x.unclean
		p.role.Store(&r)
		p.setTier(&metadata.Tier{Manifest: metadata.ID{1}, End: 10, Generation: x.generation})
		for at := range int64(9) {
			res, err := p.Read(ReadRequest{Offset: at, MaxBytes: 1 << 20, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: -1})
			if ok := errors.Is(err, ErrTier); ok != (at >= 6) || err != nil && !ok {
				t.Errorf("%s: a read at %d: %v", name, at, err)
			}
			if err == nil && (res.Size == 0 || res.Next() > 6) {
				t.Errorf("%s: a read at %d has %d bytes, up to %d", name, at, res.Size, res.Next())
			}
			res.Release()
		}
		if found, err := p.findTime(1<<40, 12); !errors.Is(err, ErrTier) {
			t.Errorf("%s: a search for a time: %+v, %v", name, found, err)
		}
		if found, err := p.maxTime(12); !errors.Is(err, ErrTier) {
			t.Errorf("%s: the largest time: %+v, %v", name, found, err)
		}
	}
}

// A follower's metadata may be older than its leader's, whose log start it has: what it does not
// know to be in the store is not out of range.
func TestAFollowerThatDoesNotKnowTheCopies(t *testing.T) {
	p, _ := border(t)
	cfg := p.log.Config()
	cfg.Cleanup.CopyFirst = true
	p.log.Configure(cfg)
	follow(p, 2, 1, pair, pair)
	must(t, p.LeaderHigh(1, 10))
	must(t, moveStart(p.log, 6))
	read := func(at int64) error {
		res, err := p.Read(ReadRequest{Offset: at, MaxBytes: 100, AtLeastOne: true, AnyReplica: true, CurrentEpoch: -1, FetchedEpoch: -1})
		res.Release()
		return err
	}
	if err := read(3); err == nil || errors.Is(err, storage.ErrOffsetOutOfRange) {
		t.Errorf("without a copy: %v", err)
	}
	tierTo(p, 0, 4)
	if err := read(5); err == nil || errors.Is(err, storage.ErrOffsetOutOfRange) {
		t.Errorf("with an older copy: %v", err)
	}
	tierTo(p, 0, 6)
	must(t, read(3))
}

// Offsets and epochs are those of the whole log.
func TestOffsetsOfATieredPartition(t *testing.T) {
	p, _ := border(t)
	lead(p, 4, []int32{self}, []int32{self})
	awaitNote(t, p)
	must(t, begin(t, p, AcksLeader, 1).wait(t)) // 10
	cfg := p.log.Config()
	cfg.Cleanup.CopyFirst, cfg.Cleanup.RetentionTime, cfg.Cleanup.RetentionBytes = true, -1, -1
	p.log.Configure(cfg)
	tierTo(p, 2, 11)
	must(t, moveStart(p.log, 10))
	for ts, want := range map[int64]int64{Latest: 11, Earliest: 2, EarliestLocal: 10, LatestTiered: 10, EarliestToGo: 11} {
		got, err := p.ListOffset(ts, -1, false)
		if err != nil || got.Offset != want {
			t.Errorf("%d: %+v, %v, want %d", ts, got, err, want)
		}
		if epoch := map[bool]int32{true: 0, false: 4}[want == 2]; got.Epoch != epoch {
			t.Errorf("%d: leader epoch %d, want %d", ts, got.Epoch, epoch)
		}
	}
	for epoch, want := range map[int32]int64{0: 10, 1: 10, 4: 11} {
		if _, end, err := p.EpochEnd(-1, epoch); err != nil || end != want {
			t.Errorf("epoch %d ends at %d, %v", epoch, end, err)
		}
	}
	res, err := p.Read(ReadRequest{Offset: 5, MaxBytes: 100, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: 0})
	must(t, err)
	if res.DivergingEpoch >= 0 || res.Size == 0 || res.LogStart != 2 {
		t.Errorf("%+v", res)
	}
	res.Release()
	if _, ok, err := p.ReadMemory(ReadRequest{Offset: 5, MaxBytes: 100, CurrentEpoch: -1, FetchedEpoch: -1}); ok || err != nil {
		t.Errorf("memory has what only the store has: %v", err)
	}
	res, err = p.Read(ReadRequest{Offset: 5, MaxBytes: 100, LendOnly: true, CurrentEpoch: -1, FetchedEpoch: -1})
	if err != nil || res.Size != 0 || res.Larger == 0 {
		t.Errorf("a loan: %+v, %v", res, err)
	}
	_, err = p.Read(ReadRequest{Offset: 1, MaxBytes: 100, CurrentEpoch: -1, FetchedEpoch: -1})
	if !errors.Is(err, storage.ErrOffsetOutOfRange) {
		t.Errorf("below the log start: %v", err)
	}
}

// A log knows the leader epoch of the record below its start. A copy with a later one there has
// records that an election has undone.
func TestEpochsOfACopyThatAnElectionHasUndone(t *testing.T) {
	p, _ := border(t)
	lead(p, 4, []int32{self}, []int32{self})
	awaitNote(t, p)
	must(t, begin(t, p, AcksLeader, 1).wait(t)) // 10
	must(t, moveStart(p.log, 10))
	p.setTier(&metadata.Tier{Manifest: metadata.ID{1}, End: 10, Epochs: []metadata.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 2, Start: 5}}})
	known := p.Known()
	if got, want := known.Entries(), []epochs.Entry{{Epoch: 0, Start: 0}, {Epoch: 4, Start: 10}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// A replica whose log was begun again at the leader's local start knows the transactions that were
// aborted above it, also if only the store has their records: it serves consumers, and may lead.
func TestAReplicaThatBeganAtTheBorderKnowsAbortedTransactions(t *testing.T) {
	_, s := border(t)
	p := lone(t, vfs.Memory())
	p.env.tier = TierOptions{Reads: s, ReadWait: time.Minute, LookupWait: time.Minute}
	follow(p, 2, 0, pair, pair)
	must(t, cut(p.log, 4, true))
	res, err := s.store.log.Read(4, 10, 1<<20, true)
	must(t, err)
	defer res.Release()
	done := make(chan error, 1)
	replicate(p, 0, 4, 10, slices.Concat(res.Parts...), func(err error) { done <- err })
	must(t, <-done)
	storedAll(t, p)
	must(t, p.LeaderHigh(0, 10))
	tierTo(p, 0, 4)
	lead(p, 1, []int32{self}, []int32{self})
	awaitNote(t, p)
	waitFor(t, "all is committed", func() bool { return p.Ends().LastStable == 10 })
	if n := abortedAt(t, p, 1); n != 1 {
		t.Errorf("a read of records of an aborted transaction has %d aborted transactions", n)
	}
}
