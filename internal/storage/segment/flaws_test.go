package segment

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
)

// readAt reads at an offset as a log does: damage is examined, and the read is repeated
// while that finds something new.
func readAt(t testing.TB, s *Segment, offset, limit int64) ([]byte, error) {
	t.Helper()
	for {
		b, err := s.Read(offset, limit, 1, true)
		var d *DamageError
		if !errors.As(err, &d) {
			return b, err
		}
		news, xerr := s.Examine(d.Pos, s.Size(), limit)
		ok(t, xerr)
		if !news {
			return nil, err
		}
	}
}

// Wherever bytes are damaged, in headers or behind them, exactly the offsets that Check
// finds lost cannot be read.
func TestReadsGetOverDamage(t *testing.T) {
	const n = 40
	limit := int64(100 + 2*n)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		fsys, size, at := checkable(t, n)
		for range 1 + rng.IntN(3) {
			// The base offset is covered by no checksum.
			change(t, fsys, Name(100)+LogSuffix, at[rng.IntN(n)]+8+rng.Int64N(size/n-8), byte(rng.IntN(256)))
		}
		c, err := Check(fsys, testDir, 100, size, limit, false, nil)
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

// A read inside of known damage costs no call to the disk, and a cut forgets the damage.
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
	ok(t, s.Cut(at[20], 140))
	if f := s.Flaws(); len(f) > 0 {
		t.Errorf("known after the cut: %+v", f)
	}
	ok(t, s.Append([][]byte{batch(t, 140, 2, 1, "in its place")}, interval))
	if b, err := readAt(t, s, 141, 142); err != nil || len(b) == 0 {
		t.Errorf("what was appended in its place: %d bytes, %v", len(b), err)
	}
}
