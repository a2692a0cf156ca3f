package record

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// text returns n bytes that compress about as well as text that people write.
func text(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 1))
	p := make([]byte, 0, n+20)
	for len(p) < n {
		word := rnd.IntN(300)
		p = append(p, "abcdefghijklmnopqrstuvwxyz"[word%20:word%20+2+word%5]...)
		p = append(p, byte('0'+rnd.IntN(10)), ' ')
	}
	return p[:n]
}

// A batch that is not heavy inflates to at most 128 KiB with any codec, even if it is truncated or
// damaged.
func TestLightBatchesInflateToLittle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, codec := range allCodecs[1:] {
		light, heavy := 0, 0
		for _, raw := range [][]byte{text(100), noise(100_000), text(100_000), text(128 << 10), text(300_000),
			make([]byte, 200_000), bytes.Repeat(noise(999), 2000)} {
			whole := foreignDeflate(t, codec, raw)
			for i := range 50 {
				p := bytes.Clone(whole)
				if i > 20 {
					p = p[:rnd.IntN(len(p))]
				}
				if i%2 == 1 && len(p) > 0 {
					p[rnd.IntN(len(p))] = byte(rnd.Int())
				}
				got, err := inflateAll(codec, p, 16<<20)
				if codec.inflatesMuch(p) {
					if heavy++; err == nil && codec == Snappy && len(got) <= lightInflated {
						t.Errorf("%s: heavy, and inflates to %d bytes", codec, len(got))
					}
					continue
				}
				if light++; len(got) > lightInflated {
					t.Errorf("%s: not heavy, and inflates to %d bytes", codec, len(got))
				}
			}
		}
		if light < 20 || heavy < 20 {
			t.Errorf("%s: %d light ones, %d heavy ones", codec, light, heavy)
		}
	}
}

// ours returns a batch with blocks of 64 KiB, as Java's producer writes it.
func ours(t *testing.T, value []byte) []byte {
	b := NewBuilder(BatchOptions{Compression: compression(t, Lz4)})
	b.Append(1, nil, value, nil)
	p, err := b.Build()
	must.OK(t, err)
	return p
}

// Heavy decides which batches the poller of many connections processes itself.
func TestHeavy(t *testing.T) {
	batch := func(codec Codec, raw []byte) []byte { return foreignRaw(t, codec, raw, 1, nil) }
	wide := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, (27 - 10) << 3},
		bytes.Repeat([]byte{0x02, 0, 0x10, 'v'}, 2000)...) // RLE blocks of 128 KiB
	skip := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}, foreignDeflate(t, Zstd, make([]byte, 300_000))...)
	tiny := append(bytes.Clone(lz4FrameHeader[:]), binary.LittleEndian.AppendUint32(nil, 65_000)...) // a block whose end is missing
	for name, c := range map[string]struct {
		p     []byte
		rules Rules
		heavy bool
	}{
		"plain":                          {p: batch(None, text(1<<20))},
		"64 KiB of text with snappy":     {p: batch(Snappy, text(64<<10))},
		"4 KiB of text with lz4":         {p: batch(Lz4, text(4<<10))},
		"64 KiB of text with our lz4":    {p: ours(t, text(64<<10))},
		"64 KiB of text with zstd":       {p: batch(Zstd, text(64<<10))},
		"64 KiB of text with gzip":       {p: batch(Gzip, text(64<<10)), heavy: true},
		"a line of text with gzip":       {p: batch(Gzip, text(80))},
		"256 KiB of text with snappy":    {p: batch(Snappy, text(256<<10)), heavy: true},
		"256 KiB of text with lz4":       {p: batch(Lz4, text(256<<10)), heavy: true},
		"256 KiB of text with zstd":      {p: batch(Zstd, text(256<<10)), heavy: true},
		"a bomb of zstd":                 {p: packed(t, Zstd, wide, 1), heavy: true},
		"zstd behind a skippable frame":  {p: packed(t, Zstd, skip, 1), heavy: true},
		"a bomb of gzip":                 {p: packed(t, Gzip, bomb(t, Gzip, 1<<20), 1), heavy: true},
		"a block of lz4 that is cut":     {p: packed(t, Lz4, tiny, 1)},
		"of no codec":                    {p: packed(t, 5, wide, 1)},
		"to be compressed":               {p: batch(None, text(1000)), rules: Rules{Compression: compression(t, Lz4)}, heavy: true},
		"to be compressed with its own":  {p: batch(Lz4, text(1000)), rules: Rules{Compression: compression(t, Lz4)}},
		"little to be inflated":          {p: batch(Lz4, text(1000)), rules: Rules{Compression: compression(t, None)}},
		"larger than the topic's limit":  {p: packed(t, Zstd, wide, 1), rules: Rules{MaxBatchBytes: 1000}},
		"nothing":                        {},
		"half a batch":                   {p: batch(Zstd, make([]byte, 1<<20))[:70]},
		"two batches":                    {p: slices.Repeat(batch(Zstd, make([]byte, 1<<20)), 2)},
		"compressed, and what is not it": {p: packed(t, Zstd, []byte("no frame"), 1)},
	} {
		if got := c.rules.Heavy(c.p); got != c.heavy {
			t.Errorf("%s: heavy %t", name, got)
		}
	}
}

// The bound of lz4 blocks is exact.
func TestLz4BlockBound(t *testing.T) {
	for _, raw := range [][]byte{text(10), text(5000), noise(5000), make([]byte, 70_000), bytes.Repeat(noise(300), 300)} {
		p := make([]byte, lz4.CompressBlockBound(len(raw)))
		n, err := new(lz4.Compressor).CompressBlock(raw, p)
		must.OK(t, err)
		if n == 0 {
			continue // would be stored uncompressed
		}
		if got := lz4BlockBound(p[:n], 1<<20); got != int64(len(raw)) {
			t.Errorf("%d bytes are counted as %d", len(raw), got)
		}
	}
}

// The bound is 100 times the size limit of a batch.
func TestInflatedBoundFollowsTheBatchesSize(t *testing.T) {
	for _, c := range []struct {
		rules Rules
		want  int64
	}{
		{Rules{}, DefaultMaxInflated}, {Rules{MaxBatchBytes: 1}, minInflated}, {Rules{MaxBatchBytes: 1 << 20}, 100 << 20},
		{Rules{MaxBatchBytes: 1 << 30}, DefaultMaxInflated}, {Rules{MaxBatchBytes: 1 << 20, MaxInflatedBytes: 5}, 5},
	} {
		if got := c.rules.maxInflated(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.rules, got, c.want)
		}
	}
	p := packed(t, Zstd, bomb(t, Zstd, 101<<20), 1)
	wantKind(t, "101 times a MiB", &Rules{MaxBatchBytes: 1 << 20}, p, TooLarge, 0)
	mustAccept(t, &Rules{MaxBatchBytes: 2 << 20}, p)
}

func BenchmarkHeavy(b *testing.B) {
	for _, codec := range allCodecs {
		p := foreignRaw(b, codec, text(64<<10), 1, nil)
		b.Run(codec.String(), func(b *testing.B) {
			r := &Rules{MaxBatchBytes: 1 << 20}
			for b.Loop() {
				r.Heavy(p)
			}
		})
	}
}
