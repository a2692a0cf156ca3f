package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestLookupsAgreeWithTheBatches(t *testing.T) {
	for seed := range uint64(5) {
		fsys := memory(t)
		all := history(t, 100, 120, seed)
		s := written(t, fsys, 100, all)
		answers(t, "live", s, all)
		ok(t, s.Seal())
		again := Open(NewFiles(fsys, 4), testDir, 100, s.Size())
		answers(t, "opened again", again, all)
	}
}

// After a restart or a truncation, the time index remains correct: its new entries take into
// account the batches that were appended before.
func TestTimeIndexAfterRestartAndTruncation(t *testing.T) {
	for _, times := range [][3]int64{{900, 100, 500}, {100, 900, 500}, {500, 100, 900}} {
		fsys := memory(t)
		var all []record.Batch
		next := int64(0)
		add := func(s *Segment, n int, ts int64) {
			var more []record.Batch
			for i := range n {
				more = append(more, batch(t, next, 1, ts+int64(i%5), "v"))
				next++
			}
			write(t, s, more)
			all = append(all, more...)
		}
		files := NewFiles(fsys, 4)
		s, err := Create(files, testDir, 0, 0)
		ok(t, err)
		add(s, 30, times[0])
		ok(t, s.Sync())
		s = Open(files, testDir, 0, s.Size())
		add(s, 30, times[1])
		answers(t, "restarted", s, all)
		all, next = all[:40], 40
		ok(t, s.Truncate(size(all), next))
		add(s, 30, times[2])
		answers(t, "cut and continued", s, all)
		ok(t, s.Seal())
		answers(t, "sealed", Open(NewFiles(fsys, 4), testDir, 0, s.Size()), all)
	}
}

// The files match Kafka's formats, byte for byte.
func TestFormatIsFixed(t *testing.T) {
	fsys := memory(t)
	var all []record.Batch
	for i := range int64(12) {
		all = append(all, batch(t, 5+i, 1, 1000+(i*7)%10, "value"))
	}
	s := written(t, fsys, 5, all)
	ok(t, s.Seal())
	got := ""
	for _, suffix := range []string{".index", ".timeindex"} {
		got += suffix + "\n" + hex.Dump(content(t, fsys, testDir+"/"+Name(5)+suffix))
	}
	if b := content(t, fsys, s.Path()); !bytes.Equal(b, bytes.Join(chunks(all), nil)) {
		t.Error("the log file is not its batches")
	}
	name := filepath.Join("testdata", "indexes.hex")
	if *update {
		ok(t, os.WriteFile(name, []byte(got), 0o666))
	}
	want, err := os.ReadFile(name)
	ok(t, err)
	if got != string(want) {
		t.Errorf("got\n%s", got)
	}
}

func chunks(all []record.Batch) (c [][]byte) {
	for _, b := range all {
		c = append(c, b)
	}
	return c
}

func TestNames(t *testing.T) {
	for name, want := range map[string]int64{Name(0) + ".log": 0, Name(math.MaxInt64) + ".log": math.MaxInt64,
		Name(7) + ".index": -1, "7.log": -1, "-0000000000000000001.log": -1, "99999999999999999999.log": -1} {
		if got, valid := ParseName(name); valid != (want >= 0) || valid && got != want {
			t.Errorf("%s: %d, %v", name, got, valid)
		}
	}
}

func TestRead(t *testing.T) {
	all := history(t, 0, 50, 1)
	s := written(t, memory(t), 0, all)
	for _, limit := range []int64{20, math.MaxInt64} {
		for i, b := range all {
			if b.BaseOffset() >= limit {
				break
			}
			got, err := s.Read(b.LastOffset(), limit, 300, true)
			ok(t, err)
			want := []byte(nil)
			for _, c := range all[i:] {
				if c.BaseOffset() >= limit || len(want) > 0 && len(want)+len(c) > 300 {
					break
				}
				want = append(want, c...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("read from %d below %d: %d bytes, want %d", b.LastOffset(), limit, len(got), len(want))
			}
		}
	}
	if got, err := s.Read(0, math.MaxInt64, 10, true); err != nil || len(got) != len(all[0]) {
		t.Errorf("a batch larger than max: %d bytes, %v", len(got), err)
	}
	if got, err := s.Read(0, math.MaxInt64, 10, false); err != nil || len(got) != 0 {
		t.Errorf("no batch fits: %d bytes, %v", len(got), err)
	}
	if got, err := s.Read(1000, math.MaxInt64, 1000, true); !errors.Is(err, ErrEnd) || len(got) != 0 {
		t.Errorf("beyond the end: %d bytes, %v", len(got), err)
	}
	var bases []int64
	ok(t, s.Headers(all[7].BaseOffset(), func(b record.Batch) bool {
		bases = append(bases, b.BaseOffset())
		return len(bases) < 3
	}))
	if len(bases) != 3 || bases[0] != all[7].BaseOffset() || bases[2] != all[9].BaseOffset() {
		t.Errorf("headers: %v", bases)
	}
}

// Damaged bytes are never returned, wherever the damage is: a read returns the bytes that were
// written, or an error that reports the damage.
func TestCorruptBatchIsNeverReturned(t *testing.T) {
	fsys := memory(t)
	all := history(t, 0, 6, 2)
	s := written(t, fsys, 0, all)
	ok(t, s.Sync())
	whole := content(t, fsys, s.Path())
	hit := len(all[0]) + len(all[1])
	for at := hit; at < hit+len(all[2]); at++ {
		b := bytes.Clone(whole)
		b[at] ^= 0x41
		replace(t, fsys, s.Path(), b)
		damaged := Open(NewFiles(fsys, 2), testDir, 0, int64(len(b)))
		for _, from := range []record.Batch{all[0], all[2]} {
			got, err := damaged.Read(from.BaseOffset(), math.MaxInt64, 1<<20, true)
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d: %v", at-hit, err)
			}
			// No checksum covers base offset and leader epoch; a wrong base offset is detected only
			// if it does not increase.
			if at-hit < 8 || at-hit >= 12 && at-hit < 16 {
				continue
			}
			if len(got) > 0 && !bytes.HasPrefix(whole, got) && !bytes.HasPrefix(whole[hit+len(all[2]):], got) {
				t.Fatalf("byte %d: damaged bytes were returned", at-hit)
			}
			if err == nil && len(got) > hit && from.BaseOffset() == 0 {
				t.Fatalf("byte %d: read over the damage", at-hit)
			}
		}
	}
}

// An index that is missing, truncated, filled with garbage or from another segment costs time and
// changes no result.
func TestBadIndexesOnlyCostTime(t *testing.T) {
	fsys := memory(t)
	all := history(t, 0, 80, 3)
	s := written(t, fsys, 0, all)
	ok(t, s.Seal())
	other := memory(t)
	foreign := written(t, other, 0, history(t, 0, 300, 4))
	ok(t, foreign.Seal())
	files := map[string][]byte{}
	for _, suffix := range indexSuffixes {
		files[suffix] = content(t, fsys, s.stem()+suffix)
	}
	restore := func() { // lookups replace wrong indexes
		for suffix, good := range files {
			replace(t, fsys, s.stem()+suffix, good)
		}
	}
	for suffix, good := range files {
		name := testDir + "/" + Name(0) + suffix
		bad := map[string][]byte{
			"empty": {}, "cut": good[:len(good)/2-1], "zeros": make([]byte, len(good)), "foreign": content(t, other, name),
			"garbage": bytes.Repeat([]byte{0x13, 0x77, 0x01}, 100), "more": append(bytes.Clone(good), 0, 0, 0x7f, 0, 0, 0, 0x7f,
				0, 0, 0, 0x7f, 0),
		}
		for i := 0; i < len(good); i += 5 {
			b := bytes.Clone(good)
			b[i] ^= 1
			bad["flip "+hex.EncodeToString([]byte{byte(i >> 8), byte(i)})] = b
		}
		for how, b := range bad {
			restore()
			replace(t, fsys, name, b)
			answers(t, suffix+" "+how, Open(NewFiles(fsys, 2), testDir, 0, s.Size()), all)
		}
		restore()
		ok(t, fsys.Remove(name))
		answers(t, suffix+" missing", Open(NewFiles(fsys, 2), testDir, 0, s.Size()), all)
	}
}

func TestFull(t *testing.T) {
	l := Limits{Bytes: 1000, Ms: 100, IndexInterval: interval, IndexBytes: 16}
	s := written(t, memory(t), 10, nil)
	if s.Full(l, 5000, 20, 0) {
		t.Error("an empty segment is full")
	}
	write(t, s, []record.Batch{batch(t, 10, 1, 500, "v")})
	for name, c := range map[string]struct {
		n    int
		last int64
		ts   int64
		want bool
	}{
		"fits": {100, 20, 600, false}, "bytes": {1000, 20, 500, true}, "time": {100, 20, 601, true},
		"offset": {100, 10 + math.MaxInt32 + 1, 500, true}, "largest offset": {100, 10 + math.MaxInt32, 500, false},
	} {
		if s.Full(l, c.n, c.last, c.ts) != c.want {
			t.Errorf("%s: full is not %v", name, c.want)
		}
	}
	write(t, s, history(t, 11, 30, 1))
	l.Bytes, l.Ms = 1<<20, 1<<40
	if !s.Full(l, 1, 100, 500) {
		t.Error("the index is full")
	}
	again := Open(s.files, testDir, 10, s.Size())
	if ts, ok := again.First(); ts != 500 || !ok {
		t.Errorf("first timestamp after a restart: %d, %v", ts, ok)
	}
}

// Sealing a segment frees allocated space that is not used.
func TestPreallocatedSegment(t *testing.T) {
	fsys := memory(t)
	s, err := Create(NewFiles(fsys, 2), testDir, 0, 10_000)
	ok(t, err)
	all := history(t, 0, 9, 1)
	write(t, s, all)
	ok(t, s.Sync())
	ok(t, s.Seal())
	if n := len(content(t, fsys, s.Path())); int64(n) != size(all) {
		t.Errorf("%d bytes of batches in a file of %d", size(all), n)
	}
	answers(t, "sealed", s, all)
}

// Readers concurrent with a writer see whole batches, in order.
func TestReadersConcurrentWithAWriter(t *testing.T) {
	all := history(t, 0, 400, 1)
	s := written(t, memory(t), 0, nil)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for next := int64(0); ; {
				b, err := s.Read(next, math.MaxInt64, 2000, true)
				if !errors.Is(err, ErrEnd) {
					ok(t, err)
				}
				_, _ = s.FindTimestamp(1500, 0)
				_, _, _ = s.MaxTimestamp()
				if len(b) == 0 {
					select {
					case <-done:
						if next == all[len(all)-1].LastOffset()+1 {
							return
						}
					default:
					}
				}
				for len(b) > 0 {
					x, rest, err := record.Next(b)
					ok(t, err)
					if x.BaseOffset() != next {
						t.Errorf("offset %d after %d", x.BaseOffset(), next)
						return
					}
					next, b = x.LastOffset()+1, rest
				}
			}
		})
	}
	for i := 0; i < len(all); i += 4 {
		write(t, s, all[i:i+4])
		if i%40 == 0 {
			ok(t, s.Sync())
		}
	}
	close(done)
	wg.Wait()
	answers(t, "after all", s, all)
}
