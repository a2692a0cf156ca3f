package record

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The budget is a part of the memory, and never less than RFC 8878 requires.
func TestBudgetIsAPartOfTheMemory(t *testing.T) {
	for memory, want := range map[int64]int64{0: 8 << 20, 51 << 20: 8 << 20, 256 << 20: 32 << 20, 1 << 40: 128 << 20,
		math.MaxInt64: 128 << 20} {
		if got := newDecodeBudget(memory).size; got != want {
			t.Errorf("%d bytes of memory: a budget of %d, want %d", memory, got, want)
		}
	}
}

// The compressors of all places use at most a quarter of the memory.
func TestZstdLevelDependsOnTheMemory(t *testing.T) {
	slots := int64(share.Half())
	for memory, want := range map[int64]zstd.EncoderLevel{51 << 20: zstd.SpeedBetterCompression,
		4*slots*zstdBestBytes - 4: zstd.SpeedBetterCompression,
		4 * slots * zstdBestBytes: zstd.SpeedBestCompression, math.MaxInt64: zstd.SpeedBestCompression} {
		r := newDecodeBudget(memory)
		if got := r.zstdLevel(22); got != want {
			t.Errorf("%d bytes of memory: %v, want %v", memory, got, want)
		}
		if got := r.zstdLevel(3); got != zstd.SpeedDefault {
			t.Errorf("level 3: %v", got)
		}
	}
	plain := foreignRaw(t, None, raw1(), 1, nil)
	spent := allocated(func() { mustAccept(t, &Rules{Compression: Compression{set: true, codec: Zstd, level: 22}}, plain) })
	if spent > zstdBestBytes {
		t.Errorf("a compressor of the best level takes %d bytes", spent)
	}
}

// inflateIn inflates a payload with a budget.
func inflateIn(r *decodeBudget, codec Codec, p []byte) error {
	inf := getInflater(codec)
	defer putInflater(codec, inf)
	defer inf.close()
	if err := inf.open(p, 256<<20, r); err != nil {
		return err
	}
	c := cursor{src: inf, limit: 256 << 20, buf: make([]byte, 0, windowSize)}
	for c.more() {
		c.pos = len(c.buf)
	}
	return c.err
}

// windowed returns a zstd bomb with a window of 2^log bytes.
func windowed(t *testing.T, log, n int) []byte {
	p := bomb(t, Zstd, n)
	p[5] = byte(log-10) << 3
	return p
}

// A batch that needs more memory than the budget is rejected before memory is acquired, with the
// remedy. A batch that cannot fill its window is not rejected.
func TestBudgetRejectsLargeBatches(t *testing.T) {
	for name, c := range map[string]struct {
		codec Codec
		p     []byte
		need  int64 // 0: it is inflated
	}{
		"window of 128 MiB":                 {Zstd, windowed(t, 27, 200<<20), 128 << 20},
		"window of 128 MiB for 10 MiB":      {Zstd, windowed(t, 27, 10<<20), 16 << 20},
		"window of 128 MiB for 5 MiB":       {Zstd, windowed(t, 27, 5<<20), 0},
		"window of 8 MiB":                   {Zstd, windowed(t, 23, 200<<20), 0},
		"raw block of 20 MiB":               {Snappy, s2.EncodeSnappy(nil, make([]byte, 20<<20)), 20 << 20},
		"raw block of 7 MiB":                {Snappy, s2.EncodeSnappy(nil, make([]byte, 7<<20)), 0},
		"blocks of 4 MiB, 50 times of them": {Lz4, bomb(t, Lz4, 200<<20), 0},
	} {
		r := newDecodeBudget(64 << 20)
		var err error
		spent := allocated(func() { err = inflateIn(r, c.codec, c.p) })
		e, refused := errors.AsType[budgetError](err)
		if c.need == 0 && err != nil || c.need > 0 && (!refused || e.need != c.need || spent > 1<<20) {
			t.Errorf("%s: %v, and %d bytes of memory; want %d", name, err, spent, c.need)
		}
		if used := r.budget.Stats().Used; used != 0 {
			t.Errorf("%s: %d bytes are still taken", name, used)
		}
		r.wide.forget()
	}
	err := (&scanner{batch: make(Batch, HeaderSize)}).streamError(budgetError{128 << 20, 8 << 20})
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != TooLarge ||
		!strings.Contains(e.Msg, "takes 128 MiB of memory, the limit of this broker is 8 MiB; send smaller batches") {
		t.Errorf("a client gets %v", err)
	}
}

// Batches that are inflated concurrently share the budget, however many they are, and so do the
// decoders that are kept for later batches.
func TestBudgetIsShared(t *testing.T) {
	r := newDecodeBudget(64 << 20)
	defer r.wide.forget()
	wide, narrow, block := windowed(t, 23, 20<<20), windowed(t, 21, 20<<20), bomb(t, Lz4, 20<<20)
	var all sync.WaitGroup
	for range 12 {
		for codec, p := range map[Codec][][]byte{Zstd: {wide, narrow}, Lz4: {block}} {
			for _, one := range p {
				all.Go(func() {
					if err := inflateIn(r, codec, one); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	all.Wait()
	if s := r.budget.Stats(); s.Peak > r.size || s.Used != 0 || s.Waited == 0 {
		t.Errorf("of %d: %+v", r.size, s)
	}
	if r.wide.kept > r.size || len(r.wide.idle) == 0 {
		t.Errorf("%d decoders are kept, for %d bytes", len(r.wide.idle), r.wide.kept)
	}
}

// The first frame does not declare the window of the next frame, so several frames get the whole
// budget.
func TestSeveralFramesGetTheWholeBudget(t *testing.T) {
	r := newDecodeBudget(64 << 20)
	defer r.wide.forget()
	small := foreignDeflate(t, Zstd, raw1())
	must.OK(t, inflateIn(r, Zstd, append(small[:len(small):len(small)], windowed(t, 23, 20<<20)...)))
	if peak := r.budget.Stats().Peak; peak != r.size {
		t.Errorf("%d bytes were taken", peak)
	}
	if err := inflateIn(r, Zstd, append(small[:len(small):len(small)], windowed(t, 24, 20<<20)...)); err == nil {
		t.Error("the second frame has a window larger than the budget")
	}
}

// A batch with a large inflated size holds a place; other batches hold none.
func TestInflatingHoldsAPlace(t *testing.T) {
	p := share.New().Of(share.Batches)
	for _, codec := range allCodecs[1:] {
		for size, want := range map[int]int{1 << 20: 1, 50: 0} {
			b, _, err := Next(packed(t, codec, bomb(t, codec, size), 1))
			must.OK(t, err)
			held := -1
			must.OK(t, b.Each(Limits{Places: p}, func(Record) error { held = p.Held(); return nil }))
			if held != want || p.Held() != 0 {
				t.Errorf("%s, %d bytes: %d places are held, and %d afterwards", codec, size, held, p.Held())
			}
		}
	}
}
