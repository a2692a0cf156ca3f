package segment

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// readAt reads at an offset as a log does: it examines damage, and repeats the read while that
// finds new flaws.
func readAt(t testing.TB, s *Segment, offset, limit int64) ([]byte, error) {
	t.Helper()
	return readUpTo(t, s, offset, limit, 1)
}

// readUpTo is readAt for a given number of bytes.
func readUpTo(t testing.TB, s *Segment, offset, limit int64, max int) ([]byte, error) {
	t.Helper()
	for {
		b, err := s.Read(offset, limit, max, true)
		var d *DamageError
		if !errors.As(err, &d) {
			return b, err
		}
		news, _, xerr := s.Examine(d, s.Size(), limit)
		ok(t, xerr)
		if !news {
			return nil, err
		}
	}
}

// For damage anywhere, in headers or after them, exactly the offsets that Check reports as lost
// cannot be read.
func TestReadsSkipDamage(t *testing.T) {
	const n = 40
	limit := int64(100 + 2*n)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		fsys, size, at := checkable(t, n)
		for range 1 + rng.IntN(3) {
			// No checksum covers the base offset.
			change(t, fsys, Name(100)+LogSuffix, at[rng.IntN(n)]+8+rng.Int64N(size/n-8), byte(rng.IntN(256)))
		}
		if seed%3 == 0 { // bytes at the end of the file are missing, as after a cut by another process
			f, err := fsys.Open(testDir + "/" + Name(100) + LogSuffix)
			ok(t, err)
			ok(t, errors.Join(f.Truncate(rng.Int64N(size)), f.Close()))
		}
		c, err := Check(fsys, testDir, 100, Facts{Size: size, End: limit}, false, nil)
		ok(t, err)
		s := Open(NewFiles(fsys, 4), testDir, 100, size)
		for _, o := range rng.Perm(2 * n) {
			offset, lost := int64(100+o), false
			for _, f := range c.Flaws {
				lost = lost || offset >= f.From && offset < f.To
			}
			b, err := readAt(t, s, offset, limit)
			if lost != errors.Is(err, ErrCorrupt) || !lost && (err != nil || len(b) == 0) {
				t.Fatalf("seed %d: read at %d: %d bytes, %v; Check: %+v; known: %+v", seed, offset, len(b), err, c.Flaws, s.Flaws())
			}
		}
		ok(t, s.files.Close())
	}
}

// A read inside of known damage needs no disk I/O, and truncating the segment removes the flaw.
func TestKnownDamageIsNotReadAgain(t *testing.T) {
	fsys, size, at := checkable(t, 40)
	change(t, fsys, Name(100)+LogSuffix, at[20]+30, 0xff)
	disk := errfs.New(fsys)
	s := Open(NewFiles(disk, 4), testDir, 100, size)
	defer s.files.Close()
	if _, err := readAt(t, s, 141, 180); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("the damage is read: %v", err)
	}
	reads := disk.Add(errfs.Rule{Ops: errfs.Read, Err: vfs.ErrLocked})
	for range 3 {
		if _, err := readAt(t, s, 140, 180); !errors.Is(err, ErrCorrupt) || reads.Hits() > 0 {
			t.Fatalf("%v after %d reads", err, reads.Hits())
		}
	}
	reads.Off()
	if f := s.Flaws(); len(f) != 1 || f[0].From != 140 || f[0].To != 142 {
		t.Errorf("known: %+v", f)
	}
	ok(t, s.Truncate(at[20], 140))
	if f := s.Flaws(); len(f) > 0 {
		t.Errorf("known after the truncation: %+v", f)
	}
	ok(t, s.Append([][]byte{batch(t, 140, 2, 1, "in its place")}, interval))
	if b, err := readAt(t, s, 141, 142); err != nil || len(b) == 0 {
		t.Errorf("appended in its place: %d bytes, %v", len(b), err)
	}
}

// No checksum covers a batch's base offset. A base offset that is too high is never returned if the
// following batches disprove it: a consumer would continue after it and miss those batches.
func TestAWrongOffsetMisleadsNoReader(t *testing.T) {
	const n, hurt = 40, 20
	for _, base := range []int64{150, 178} {
		for _, size := range []int{1, 300, 1 << 20} {
			fsys, end, at := checkable(t, n)
			change(t, fsys, Name(100)+LogSuffix, at[hurt], binary.BigEndian.AppendUint64(nil, uint64(base))...)
			s := Open(NewFiles(fsys, 4), testDir, 100, end)
			seen := map[int64]bool{}
			for next := int64(100); next < 180; {
				b, err := readUpTo(t, s, next, 180, size)
				if errors.Is(err, ErrCorrupt) {
					next++ // as a client does that received the error
					continue
				}
				ok(t, err)
				for rest := b; len(rest) > 0; {
					var b record.Batch
					b, rest, err = record.Next(rest)
					ok(t, err)
					for o := b.BaseOffset(); o <= b.LastOffset(); o++ {
						seen[o] = true
					}
					next = b.LastOffset() + 1
				}
			}
			for o := int64(100); o < 180; o++ {
				if lost := o == 100+2*hurt || o == 101+2*hurt; seen[o] == lost {
					t.Errorf("base %d, reads of %d bytes: offset %d was read: %t", base, size, o, seen[o])
				}
			}
			ok(t, s.files.Close())
		}
	}
}

// A reader that meets damage while another reader examines it also skips the damage.
func TestDamageExaminedByAnotherReader(t *testing.T) {
	fsys, size, at := checkable(t, 40)
	change(t, fsys, Name(100)+LogSuffix, at[20]+8, 0x7f)
	s := Open(NewFiles(fsys, 4), testDir, 100, size)
	defer s.files.Close()
	_, err := s.Read(144, 180, 1, true)
	var met *DamageError
	if !errors.As(err, &met) {
		t.Fatalf("the damage is not met: %v", err)
	}
	if b, err := readAt(t, s, 144, 180); err != nil || len(b) == 0 {
		t.Fatalf("behind the damage: %d bytes, %v", len(b), err)
	}
	if news, _, err := s.Examine(met, size, 180); err != nil || !news {
		t.Errorf("the other reader learns nothing new: %t, %v", news, err)
	}
	if news, _, err := s.Examine(s.inFlaw(140).(*DamageError), size, 180); err != nil || news { //nolint:errorlint // always of this type
		t.Errorf("a read inside of known damage must be repeated: %t, %v", news, err)
	}
}

// A lookup by time whose answer lies before the damage finds it, whether or not the index files
// exist. A lookup whose answer lies at or beyond the damage reports it.
func TestLookupsByTimeBeforeDamage(t *testing.T) {
	const n = 40
	for damaged := range n {
		for _, indexed := range []bool{true, false} {
			fsys, size, at := checkable(t, n)
			change(t, fsys, Name(100)+LogSuffix, at[damaged]+16, 0xff) // magic: not a batch
			if !indexed {
				for _, suffix := range indexSuffixes {
					ok(t, fsys.Remove(testDir+"/"+Name(100)+suffix))
				}
			}
			s := Open(NewFiles(fsys, 4), testDir, 100, size)
			for i := range n {
				b, err := s.FindTimestamp(int64(1000+i), 0)
				switch {
				case i < damaged && (err != nil || len(b) == 0 || b.BaseOffset() != 100+int64(2*i)):
					t.Fatalf("index files %t, batch %d damaged: lookup of batch %d: %v", indexed, damaged, i, err)
				case i == damaged && !errors.Is(err, ErrCorrupt):
					t.Fatalf("index files %t: lookup of the damaged batch %d: %d bytes, %v", indexed, i, len(b), err)
				case i > damaged && !errors.Is(err, ErrCorrupt) && (err != nil || len(b) == 0 || b.BaseOffset() != 100+int64(2*i)):
					t.Fatalf("index files %t, batch %d damaged: lookup of batch %d: %v", indexed, damaged, i, err)
				}
			}
			ok(t, s.files.Close())
		}
	}
}
