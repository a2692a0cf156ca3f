package segment

import (
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testDir  = "/t-0"
	interval = 256
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func memory(t testing.TB) vfs.FS {
	t.Helper()
	m := vfs.Memory()
	ok(t, m.MkdirAll(testDir))
	return m
}

// batch returns a batch of n records at an offset, all with one timestamp.
func batch(t testing.TB, base int64, n int, ts int64, value string) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{BaseOffset: base})
	for range n {
		b.Append(ts, nil, []byte(value), nil)
	}
	out, err := b.Build()
	ok(t, err)
	return out
}

// history returns batches of one to three records from base on, with timestamps that rise and fall.
func history(t testing.TB, base int64, n int, seed uint64) []record.Batch {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	all := make([]record.Batch, n)
	for i := range all {
		records := 1 + rng.IntN(3)
		all[i] = batch(t, base, records, 1000+int64(10*i)+rng.Int64N(200), "some value of a record")
		base += int64(records)
	}
	return all
}

func write(t testing.TB, s *Segment, all []record.Batch) {
	t.Helper()
	for i := 0; i < len(all); i += 3 {
		var chunks [][]byte
		for _, b := range all[i:min(i+3, len(all))] {
			chunks = append(chunks, b)
		}
		ok(t, s.Append(chunks, interval))
	}
}

// written returns a segment that holds the batches.
func written(t testing.TB, fsys vfs.FS, base int64, all []record.Batch) *Segment {
	t.Helper()
	s, err := Create(NewFiles(fsys, 4), testDir, base, 0)
	ok(t, err)
	write(t, s, all)
	return s
}

func size(all []record.Batch) (n int64) {
	for _, b := range all {
		n += int64(len(b))
	}
	return n
}

func content(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	ok(t, err)
	defer f.Close()
	n, err := f.Size()
	ok(t, err)
	b := make([]byte, n)
	if n > 0 {
		_, err = f.ReadAt(b, 0)
		ok(t, err)
	}
	return b
}

func replace(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	ok(t, fsys.RemoveAll(name))
	f, err := fsys.Create(name)
	ok(t, err)
	_, err = f.WriteAt(b, 0)
	ok(t, err)
	ok(t, f.Close())
}

// answers checks that every lookup agrees with the batches.
func answers(t testing.TB, what string, s *Segment, all []record.Batch) {
	t.Helper()
	pos, top, topAt := int64(0), int64(-1), int64(-1)
	for _, b := range all {
		for o := b.BaseOffset(); o <= b.LastOffset(); o++ {
			p, n, err := s.Find(o)
			if err != nil || p != pos || n != len(b) {
				t.Fatalf("%s: Find(%d) = %d+%d, %v; want %d+%d", what, o, p, n, err, pos, len(b))
			}
		}
		if b.MaxTimestamp() > top {
			top, topAt = b.MaxTimestamp(), b.LastOffset()
		}
		pos += int64(len(b))
	}
	if ts, at, err := s.MaxTimestamp(); err != nil || ts != top || at != topAt {
		t.Fatalf("%s: MaxTimestamp = %d at %d, %v; want %d at %d", what, ts, at, err, top, topAt)
	}
	for ts := int64(990); ts <= top+1; ts += 7 {
		want := int64(-1)
		for _, b := range all {
			if b.MaxTimestamp() >= ts {
				want = b.BaseOffset()
				break
			}
		}
		got := int64(-1)
		b, err := s.FindTimestamp(ts, 0)
		if len(b) > 0 {
			got = b.BaseOffset()
		}
		if err != nil || got != want {
			t.Fatalf("%s: FindTimestamp(%d) = %d, %v; want %d", what, ts, got, err, want)
		}
	}
}

// Find returns the position and size of the batch that holds offset, or of the first one after it.
func (s *Segment) Find(offset int64) (pos int64, size int, err error) {
	h, err := s.open()
	if err != nil {
		return 0, 0, err
	}
	defer s.files.release(h)
	pos, n, err := s.find(h, offset)
	return pos, int(n), err
}
