package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// onDisk returns an empty segment in a file of the system, whose bytes the system can lend.
func onDisk(t *testing.T) *Segment {
	t.Helper()
	files := NewFiles(vfs.OS(), 4)
	s, err := Create(files, t.TempDir(), 0, 0)
	ok(t, err)
	t.Cleanup(func() {
		if files.lent != 0 {
			t.Errorf("%d files are lent at the end", files.lent)
		}
		ok(t, files.Close())
	})
	f, err := os.Open(s.Path())
	ok(t, err)
	defer f.Close()
	var in unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &in, 0); err != nil {
		t.Skipf("this kernel does not say what is in the page cache: %v", err)
	}
	return s
}

// large returns batches of up to size bytes from an offset on.
func large(t *testing.T, base int64, n, size int, seed uint64) (all []record.Batch) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	for range n {
		records := 1 + rng.IntN(3)
		b := batch(t, base, records, 1000, strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(size)))
		all, base = append(all, b), base+int64(records)
	}
	return all
}

// lend is ReadOrLend with the bytes of either.
func lend(t *testing.T, s *Segment, offset, limit int64, most int, one bool) (b []byte, loan *Loan, err error) {
	t.Helper()
	var pool bufpool.Pool
	_, b, loan, err = s.ReadOrLend(&pool, offset, limit, most, one, MayLend)
	if loan != nil {
		b = make([]byte, loan.Size())
		_, err = loan.ReadAt(b, 0)
	}
	return b, loan, err
}

// uncache writes a segment to the disk and drops it from the page cache.
func uncache(t *testing.T, s *Segment) {
	t.Helper()
	ok(t, s.SyncBatches())
	f, err := os.Open(s.Path())
	ok(t, err)
	defer f.Close()
	ok(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// A reader without memory, which gets its first batch in any case, gets a loan of it and no buffer:
// there may be as many such readers as connections.
func TestABatchBeyondTheLimitIsLent(t *testing.T) {
	s := onDisk(t)
	var all []record.Batch
	for i := range int64(3) {
		all = append(all, batch(t, i, 1, 1000, strings.Repeat("x", 200_000)))
	}
	write(t, s, all)
	for _, known := range []string{"appended", "read", "read again"} {
		if known == "read" { // only reads verify from here on
			s.renew()
		}
		for i, want := range all[:2] { // no batch shows where the last one ends
			got, loan, err := lend(t, s, int64(i), math.MaxInt64, 64<<10, true)
			if err != nil || loan == nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, batch %d: loan %v, %d bytes, %v", known, i, loan != nil, len(got), err)
			}
			loan.Release()
		}
	}
	if got, loan, err := lend(t, s, 0, math.MaxInt64, 64<<10, false); len(got) > 0 || loan != nil || !errors.As(err, new(LargerError)) {
		t.Errorf("a batch that does not fit: %d bytes, %v", len(got), err)
	}
}

// A loan has the bytes that a read returns, as many as are known to be valid, and says where they
// end. What was appended is known, and so is what was read.
func TestALoanHasWhatAReadReturns(t *testing.T) {
	s, loans := onDisk(t), 0
	all := large(t, 0, 300, 20_000, 1)
	ends := map[int64]int64{} // offset → where its batch ends
	for _, b := range all {
		for o := b.BaseOffset(); o <= b.LastOffset(); o++ {
			ends[o] = b.LastOffset() + 1
		}
	}
	write(t, s, all)
	end, rng := all[len(all)-1].LastOffset()+1, rand.New(rand.NewPCG(1, 4))
	for i := range 200 {
		if i == 100 { // from here on, only reads verify
			s.renew()
		}
		offset, limit, most := rng.Int64N(end), rng.Int64N(end)+1, rng.IntN(int(s.Size()))
		if rng.IntN(2) == 0 {
			limit = math.MaxInt64
		}
		got, loan, err := lend(t, s, offset, limit, most, rng.IntN(2) == 0)
		if !errors.As(err, new(LargerError)) {
			ok(t, err)
		}
		if loan == nil {
			continue
		}
		loans++
		want, err := s.Read(offset, limit, len(got), false)
		ok(t, err)
		last := record.Batch(nil)
		for p := got; len(p) > 0; {
			b, rest, err := record.Next(p)
			ok(t, err)
			last, p = b, rest
		}
		if !bytes.Equal(got, want) || loan.Next() != last.LastOffset()+1 || last.LastOffset() >= limit || len(got) > most {
			t.Fatalf("round %d, offset %d, limit %d, max %d: %d bytes up to %d, %d were read", i, offset, limit, most, len(got),
				loan.Next(), len(want))
		}
		loan.Release()
	}
	if loans < 50 {
		t.Errorf("%d loans", loans)
	}
}

// A loan needs bytes that were verified within a minute, and that are in memory. Damage on the disk
// is then found, and the verified bytes around it are forgotten.
func TestALoanIsFreshAndInMemory(t *testing.T) {
	s := onDisk(t)
	now := time.Duration(0)
	s.files.verified.clock = func() time.Duration { return now }
	all := large(t, 0, 40, 60_000, 2)
	write(t, s, all)
	whole := func() (lent bool, err error) {
		t.Helper()
		_, loan, err := lend(t, s, 0, math.MaxInt64, math.MaxInt32, true)
		if loan != nil {
			if loan.Release(); int64(loan.Size()) != s.Size() {
				t.Errorf("%d of %d bytes are lent", loan.Size(), s.Size())
			}
		}
		return loan != nil, err
	}
	for _, step := range []struct {
		name string
		do   func()
		lent bool
	}{
		{"written", func() {}, true},
		{"a minute later", func() { now += verifiedFor }, false},
		{"read again", func() {}, true},
		{"dropped from memory", func() { uncache(t, s) }, false},
		{"read from the disk", func() {}, true},
	} {
		step.do()
		if lent, err := whole(); err != nil || lent != step.lent {
			t.Fatalf("%s: lent %t, %v", step.name, lent, err)
		}
	}
	f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	ok(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("damage"), 100)
	ok(t, err)
	ok(t, f.Sync())
	uncache(t, s)
	for range 2 { // the first read brings it into memory
		if lent, err := whole(); lent || !errors.Is(err, ErrCorrupt) {
			t.Fatalf("damage on the disk: lent %t, %v", lent, err)
		}
	}
}

// A loan begins with the batch that holds the offset, even if the remembered position is wrong, and
// ends before bytes that are known to be damaged. There is none if the segment is truncated while
// the loan is being made.
func TestALoanIsWhereItShouldBe(t *testing.T) {
	s := onDisk(t)
	all := large(t, 0, 60, 30_000, 6)
	write(t, s, all)
	s.positions.put(0, all[3].BaseOffset(), size(all[:10]))
	for _, from := range []int{3, 40} {
		got, loan, err := lend(t, s, all[from].BaseOffset(), math.MaxInt64, math.MaxInt32, true)
		if err != nil || loan == nil || record.Batch(got).BaseOffset() != all[from].BaseOffset() {
			t.Fatalf("from batch %d: %v, %v", from, loan, err)
		}
		loan.Release()
		s.flaws.Store(&[]Flaw{{Pos: size(all[:30]), Size: int64(len(all[30])), From: all[30].BaseOffset(), To: all[31].BaseOffset()}})
	}
	_, loan, err := lend(t, s, 0, math.MaxInt64, math.MaxInt32, true)
	ok(t, err)
	if int64(loan.Size()) > size(all[:30]) {
		t.Errorf("%d bytes are lent, damage begins at %d", loan.Size(), size(all[:30]))
	}
	loan.Release()
	s.files.verified.clock = func() time.Duration {
		s.renew()
		return 0
	}
	if _, loan, err = lend(t, s, 0, math.MaxInt64, math.MaxInt32, true); loan != nil || err != nil {
		t.Errorf("lent during a truncation: %v, %v", loan, err)
	}
}

// A base offset that is too high leads no reader of loans past the batches that follow it, also if
// another reader has asked for an offset that the wrong one seems to hold.
func TestAWrongOffsetIsNotLent(t *testing.T) {
	s := onDisk(t)
	const hurt, wrong = 3, 7
	var all []record.Batch
	for i := range int64(20) {
		all = append(all, batch(t, 2*i, 2, 1000, strings.Repeat("v", 70_000)))
	}
	write(t, s, all)
	f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	ok(t, err)
	defer f.Close()
	_, err = f.WriteAt(binary.BigEndian.AppendUint64(nil, wrong), size(all[:hurt]))
	ok(t, err)
	s.renew()
	for _, offset := range []int64{wrong + 1, 0, 0} {
		b, loan, _ := lend(t, s, offset, math.MaxInt64, 1<<20, true) // the first one may meet the damage
		for next := int64(0); loan != nil && len(b) > 0; {
			h, rest, err := record.Next(b)
			ok(t, err)
			if h.BaseOffset() != next {
				t.Fatalf("lent: offset %d follows %d", h.BaseOffset(), next)
			}
			next, b = h.LastOffset()+1, rest
		}
		if loan != nil {
			loan.Release()
		}
	}
}

// noWriteback is a file whose write-back fails.
type noWriteback struct{ vfs.File }

func (noWriteback) Writeback(int64, int64) error { return syscall.EIO }
func (noWriteback) StartWriteback(int64, int64)  {}

// After a failed write-back, the system may also have dropped what was written.
func TestAFailedWriteBackForgetsWhatWasVerified(t *testing.T) {
	s := onDisk(t)
	s.files.busy = func() bool { return true }
	write(t, s, large(t, 0, 3, 1000, 1))
	h, err := s.open()
	ok(t, err)
	defer s.files.release(h)
	was, before := h.f, s.content.Load()
	defer func() { h.f = was }()
	h.f = noWriteback{was}
	err = s.Append([][]byte{batch(t, 100, 1, 1, strings.Repeat("v", 4*paceLeast))}, interval)
	if !errors.Is(err, syscall.EIO) || s.content.Load() == before {
		t.Errorf("what was written counts as verified: %v", err)
	}
}

// A truncation ends the loans of a segment. The bytes that are then appended in the same place are
// other ones.
func TestATruncationEndsLoans(t *testing.T) {
	s := onDisk(t)
	all := large(t, 0, 40, 30_000, 3)
	write(t, s, all)
	_, loan, err := lend(t, s, 0, math.MaxInt64, math.MaxInt32, true)
	ok(t, err)
	if loan == nil {
		t.Fatal("nothing is lent")
	}
	defer loan.Release()
	keep := 20
	ok(t, s.Truncate(size(all[:keep]), all[keep].BaseOffset()))
	if _, err := loan.ReadAt(make([]byte, 1), 0); !errors.Is(err, errCut) {
		t.Errorf("read of a loan: %v", err)
	}
	if n, err := loan.SendTo(-1, 0, 1); n != 0 || !errors.Is(err, errCut) {
		t.Errorf("%d bytes of a loan were sent: %v", n, err)
	}
	next := large(t, all[keep].BaseOffset(), 40, 30_000, 4)
	write(t, s, next)
	var want []byte
	for _, b := range append(all[:keep:keep], next...) {
		want = append(want, b...)
	}
	for i := range 2 {
		got, again, err := lend(t, s, 0, math.MaxInt64, math.MaxInt32, true)
		if err != nil || again == nil != (i == 0) || !bytes.Equal(got, want) {
			t.Errorf("read %d: %d bytes, lent %t, %v", i, len(got), again != nil, err)
		}
		if again != nil {
			again.Release()
		}
	}
}

// A loan keeps its file, whatever happens to the name.
func TestALoanKeepsItsFile(t *testing.T) {
	s := onDisk(t)
	all := large(t, 0, 20, 60_000, 5)
	write(t, s, all)
	want, loan, err := lend(t, s, 0, math.MaxInt64, math.MaxInt32, true)
	ok(t, err)
	ok(t, s.Remove())
	ok(t, os.WriteFile(filepath.Join(s.dir, Name(0)+LogSuffix), make([]byte, s.Size()), 0o600))
	got := make([]byte, loan.Size())
	if _, err := loan.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("another file is lent: %v", err)
	}
	h := loan.h
	loan.Release()
	if _, err := h.f.ReadAt(got, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is open after the loan: %v", err)
	}
}

// Readers borrow while the segment is truncated and gets other batches in the same place. What they
// can read of a loan are whole batches of one state of the segment: a truncation ends it.
func TestLoansDuringTruncations(t *testing.T) {
	s := onDisk(t)
	keep := large(t, 0, 10, 40_000, 7)
	write(t, s, keep)
	base, at := keep[9].LastOffset()+1, size(keep)
	stop, lent := make(chan struct{}), make(chan int, 2)
	for range 2 {
		go func() {
			n := 0
			defer func() { lent <- n }()
			for !t.Failed() {
				select {
				case <-stop:
					return
				default:
				}
				b, loan, err := lend(t, s, 0, math.MaxInt64, math.MaxInt32, true)
				if loan != nil {
					n++
					loan.Release()
				}
				if err == nil { // otherwise the segment was truncated
					checkState(t, b, base)
				}
			}
		}()
	}
	for i := range 150 {
		var chunks [][]byte
		for o, size := base, 1000+i*37%30_000; o < base+8; o++ { // other sizes and bytes each time
			chunks = append(chunks, batch(t, o, 1, 1000, strings.Repeat(string(rune('a'+i%26)), size)))
		}
		ok(t, s.Append(chunks, interval))
		time.Sleep(time.Duration(i%5) * 100 * time.Microsecond) // readers borrow
		ok(t, s.Truncate(at, base))
	}
	close(stop)
	if n := <-lent + <-lent; n == 0 {
		t.Error("nothing was lent")
	}
}

// checkState checks that bytes are whole batches, and that those from an offset on have one value.
func checkState(t *testing.T, all []byte, base int64) {
	value := ""
	for p := all; len(p) > 0; {
		b, rest, err := record.Next(p)
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			t.Errorf("the batch at %d of %d: %v", len(all)-len(p), len(all), err)
			return
		}
		if one := string(b[len(b)-3 : len(b)-2]); b.BaseOffset() >= base {
			if value != "" && one != value {
				t.Errorf("batches of two states: %q and %q", value, one)
			}
			value = one
		}
		p = rest
	}
}
