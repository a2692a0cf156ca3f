package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// lendDir returns a directory of the system's file system, whose logs have this configuration.
func lendDir(t testing.TB, cfg Config) (*Dir, *Log) {
	t.Helper()
	d, err := OpenDir(Location{Path: t.TempDir()}, Options{FS: vfs.OS(), Holder: "pid 4711", JournalFileSize: 4 << 20,
		JournalBytes: 16 << 20, Config: func(string, ID) Config { return cfg }})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: cfg}})
	must(t, err)
	lead(logs...)
	logs[0].Observe(idle{})
	return d, logs[0]
}

// lendConfig is a configuration with segments of this size.
func lendConfig(segmentBytes int64) Config {
	cfg := testConfig("os")
	cfg.Segment.Bytes = segmentBytes
	return cfg
}

// fill appends n batches of up to most bytes, half of them small, whose values consist of mark.
func fill(t testing.TB, l *Log, rng *rand.Rand, n, most int, mark byte) {
	t.Helper()
	for i := range n {
		size := 100 + rng.IntN(most)
		if i%2 == 0 {
			size = 100 + rng.IntN(2000)
		}
		b := record.NewBuilder(record.BatchOptions{})
		for range 1 + rng.IntN(3) {
			b.Append(1, nil, bytes.Repeat([]byte{mark}, size/2), nil)
		}
		data, err := b.Build()
		must(t, err)
		ok(t, send(l, data))
	}
	toFiles(t, l)
}

// toFiles moves a log's records from memory to files.
func toFiles(t testing.TB, l *Log) {
	t.Helper()
	synced(t, l)
	must(t, l.flushAndSync())
	l.dir.memory.evictAll([]*Log{l})
}

// wholeOf returns the batches of a slice, also those of the loan.
func wholeOf(s *Slice) ([]byte, error) {
	all := make([]byte, 0, s.Size)
	if s.Loan != nil {
		all = all[:s.Loan.Size()]
		if _, err := s.Loan.ReadAt(all, 0); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Parts {
		all = append(all, p...)
	}
	if len(all) != s.Size {
		return nil, fmt.Errorf("%w: %d bytes, Size is %d", errLend, len(all), s.Size)
	}
	return all, nil
}

var errLend = errors.New("a loan is wrong")

// split checks batches, and returns them.
func split(all []byte) (list []record.Batch, err error) {
	for len(all) > 0 {
		b, rest, err := record.Next(all)
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: after %d batches: %w", errLend, len(list), err)
		}
		list, all = append(list, b), rest
	}
	return list, nil
}

// lendLikeRead fails unless Lend returns batches of all, the log's, as Read does: from the one that
// holds the offset or the next one, none at the limit or above, and not more than max bytes.
func lendLikeRead(t testing.TB, l *Log, all []record.Batch, offset, limit int64, max int, one bool) {
	t.Helper()
	r, err := l.Read(offset, limit, max, one)
	must(t, err)
	defer r.Release()
	s, err := l.Lend(offset, limit, max, one)
	must(t, err)
	defer s.Release()
	got, err := wholeOf(&s)
	must(t, err)
	list, err := split(got)
	if err != nil || (len(list) == 0) != (r.Size == 0) || s.Size > max && (!one || len(list) > 1) {
		t.Fatalf("Lend(%d, %d, %d, %t): %d bytes, %d batches, Read has %d bytes: %v", offset, limit, max, one, s.Size, len(list), r.Size,
			err)
	}
	for len(all) > 0 && all[0].LastOffset() < offset {
		all = all[1:]
	}
	for i, b := range list {
		if b.BaseOffset() >= limit || !bytes.Equal(b, all[i]) {
			t.Fatalf("Lend(%d, %d, %d, %t): batch %d is that of offset %d, should be that of %d", offset, limit, max, one, i,
				b.BaseOffset(), all[i].BaseOffset())
		}
	}
	if s.Loan != nil {
		if first, _ := split(got[:s.Loan.Size()]); first[len(first)-1].LastOffset()+1 != s.Loan.Next() {
			t.Fatalf("Lend(%d, %d, %d, %t): the loan's Next is %d", offset, limit, max, one, s.Loan.Next())
		}
	}
}

// lentReads counts the reads of a directory that were lent.
func lentReads(l *Log) float64 { return testutil.ToFloat64(l.dir.stats.lentReads) }

// randomLends compares n random reads, and fails if none was lent.
func randomLends(t testing.TB, l *Log, rng *rand.Rand, n int) {
	t.Helper()
	all, err := contentsOf(l)
	must(t, err)
	before, end := lentReads(l), l.Ends().LogEnd
	start := l.logStart.Load()
	for i := range n {
		offset, limit, max := start+rng.Int64N(end-start), int64(math.MaxInt64), 1+rng.IntN(1<<20)
		switch i % 4 {
		case 0:
			limit = offset + rng.Int64N(40) // often in the middle of a block
		case 1:
			max = rng.IntN(4000)
		}
		if i%50 == 2 {
			max = 11 << 20
		}
		lendLikeRead(t, l, all, offset, limit, max, i%3 > 0)
	}
	if lentReads(l) == before {
		t.Error("no read was lent")
	}
}

// hold returns a loan that begins at an offset, and its bytes. It ends before the directory closes.
func hold(t testing.TB, l *Log, offset int64) (s Slice, was []byte) {
	t.Helper()
	for range 2 { // the first one may have to verify the bytes
		var err error
		if s, err = l.Lend(offset, math.MaxInt64, 1<<20, true); err != nil {
			t.Fatal(err)
		}
		if s.Loan != nil {
			break
		}
		s.Release()
	}
	if s.Loan == nil {
		t.Fatalf("no loan at offset %d", offset)
	}
	t.Cleanup(s.Release)
	was, err := wholeOf(&s)
	must(t, err)
	return s, was
}

// keeps fails unless a loan still has its bytes.
func keeps(t testing.TB, s *Slice, was []byte) {
	t.Helper()
	if now, err := wholeOf(s); err != nil || !bytes.Equal(now, was) {
		t.Errorf("%d bytes of a loan of %d are the same as before: %t, %v", len(now), len(was), bytes.Equal(now, was), err)
	}
}

// Lend returns the batches that Read returns, also after a truncation and behind a log start in the
// middle of a segment.
func TestLendReturnsWhatReadReturns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d, l := lendDir(t, lendConfig(12<<20))
	fill(t, l, rng, 260, 300_000, 'a')
	if l.Segments() < 2 {
		t.Fatalf("%d segments", l.Segments())
	}
	randomLends(t, l, rng, 60)

	mid := l.segments[1].Base() / 2
	all, err := contentsOf(l)
	must(t, err)
	for i := range all {
		if mid = all[i].BaseOffset(); mid >= l.segments[1].Base()/2 {
			break
		}
	}
	cut, _ := hold(t, l, mid-10)
	must(t, l.Truncate(mid))
	if b, err := wholeOf(&cut); err == nil {
		t.Errorf("a loan has %d bytes after a truncation", len(b))
	}
	fill(t, l, rng, 100, 100_000, 'b')
	if b, err := wholeOf(&cut); err == nil {
		t.Errorf("a loan has %d bytes, others were appended", len(b))
	}
	randomLends(t, l, rng, 60)

	s, was := hold(t, l, 1)
	must(t, l.SetLogStart(mid-3))
	if _, err := l.Lend(mid-4, math.MaxInt64, 1<<20, true); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("below the log start: %v", err)
	}
	randomLends(t, l, rng, 30)
	keeps(t, &s, was)
	must(t, d.Close())
	if _, err := wholeOf(&s); err == nil {
		t.Error("a loan of a closed directory has bytes")
	}
}

// A compaction leaves a loan its bytes. What is lent next has its gaps.
func TestACompactionDuringALoan(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	cfg := compacted("os")
	cfg.Segment.Bytes = 512 << 10
	d, l := lendDir(t, cfg)
	for i := range 100 {
		ok(t, send(l, keyed(t, fmt.Sprint(i%7, i%2*i), strings.Repeat(string(rune('a'+i%20)), 20_000), nil)))
	}
	toFiles(t, l)
	randomLends(t, l, rng, 20)
	s, was := hold(t, l, 2)
	before := l.Size()
	if compactAll(t, d) == 0 || l.Size() >= before {
		t.Fatal("nothing was compacted")
	}
	keeps(t, &s, was)
	randomLends(t, l, rng, 30)
	keeps(t, &s, was)
}

// Retention removes a segment of which a client has a loan: the client gets its bytes.
func TestRetentionDuringALoan(t *testing.T) {
	cfg := lendConfig(512 << 10)
	cfg.Cleanup = Cleanup{Delete: true, RetentionTime: -1, RetentionBytes: 1 << 20, TimestampAfter: time.Hour}
	d, l := lendDir(t, cfg)
	fill(t, l, rand.New(rand.NewPCG(5, 6)), 120, 100_000, 'a')
	s, was := hold(t, l, 0)
	d.applyRetention()
	if l.Ends().LogStart == 0 {
		t.Fatal("nothing was removed")
	}
	keeps(t, &s, was)
	if _, err := l.Lend(0, math.MaxInt64, 1<<20, true); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("a removed offset: %v", err)
	}
}
