package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// packed puts a compressed payload after a header.
func packed(t testing.TB, codec Codec, payload []byte, count int) []byte {
	return foreignRaw(t, None, payload, count, func(b *kmsg.RecordBatch) { b.Attributes = int16(codec) })
}

// bomb returns a payload of one record with n zeros as its value.
func bomb(t testing.TB, codec Codec, n int) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := map[Codec]func() io.WriteCloser{
		Gzip: func() io.WriteCloser { return gzip.NewWriter(&buf) },
		Lz4: func() io.WriteCloser {
			w := lz4.NewWriter(&buf)
			must.OK(t, w.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.ConcurrencyOption(1)))
			return w
		},
		Snappy: func() io.WriteCloser {
			w := newXerialWriter()
			must.OK(t, w.reset(&buf))
			return w
		},
		Zstd: func() io.WriteCloser {
			w, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
			must.OK(t, err)
			return w
		},
	}[codec]()
	fields := append([]byte{0, 0, 0, 1}, binary.AppendVarint(nil, int64(n))...)
	head := binary.AppendVarint(nil, int64(len(fields)+n+1))
	write := func(p []byte) {
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	write(head)
	write(fields)
	for zeros := make([]byte, 1<<20); n > 0; n -= len(zeros) {
		write(zeros[:min(n, len(zeros))])
	}
	write([]byte{0})
	must.OK(t, w.Close())
	return buf.Bytes()
}

// A large inflated size costs neither memory, nor time beyond the limit, whether the batch is
// accepted, rejected or re-compressed.
func TestBombIsRejectedWithLittleMemory(t *testing.T) {
	const inflated, limit = 64 << 20, 16 << 20
	const memory = 24 << 20 // all allocations, including those for pools that were emptied
	for _, codec := range allCodecs[1:] {
		p := packed(t, codec, bomb(t, codec, inflated), 1)
		t.Logf("%s: %d bytes inflate to %d", codec, len(p), inflated)
		for name, r := range map[string]*Rules{
			"refused":       {MaxInflatedBytes: limit},
			"re-compressed": {MaxInflatedBytes: limit, Compression: compression(t, None)},
			"too large":     {MaxBatchBytes: max(len(p), 1<<20), Compression: compression(t, None)},
		} {
			spent := allocated(func() { wantKind(t, codec.String()+" "+name, r, p, TooLarge, kindAt(r)) })
			if spent > memory {
				t.Errorf("%s %s: took %d bytes of memory", codec, name, spent)
			}
		}
		if spent := allocated(func() { mustAccept(t, &Rules{}, p) }); spent > memory {
			t.Errorf("%s accepted: took %d bytes of memory", codec, spent)
		}
	}
}

// kindAt returns where a bomb is detected: the record length reveals it before it is inflated,
// while a batch that became too large is too large as a whole.
func kindAt(r *Rules) int32 {
	if r.MaxInflatedBytes > 0 {
		return 0
	}
	return -1
}

// allocated returns how many bytes fn allocated.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Many small records are bounded, although no single length reveals this bomb.
func TestManySmallRecordsAreBounded(t *testing.T) {
	var raw []byte
	for i := range int32(4000) {
		raw = append(raw, foreignRecord(i, 0, Record{Value: make([]byte, 50)})...)
	}
	for _, codec := range allCodecs[1:] {
		p := foreignRaw(t, codec, raw, 4000, nil)
		mustAccept(t, &Rules{MaxInflatedBytes: int64(len(raw))}, p)
		_, err := (&Rules{MaxInflatedBytes: int64(len(raw) - 1)}).Accept(p, testNow)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != TooLarge {
			t.Errorf("%s: %v", codec, err)
		}
		b, _, _ := Next(p)
		if e, ok := errors.AsType[*Error](b.Each(Limits{Bytes: 1000}, func(Record) error { return nil })); !ok || e.Kind != TooLarge {
			t.Errorf("%s: Each: %v", codec, err)
		}
	}
}

func raw1() []byte {
	return foreignRecord(0, 0, Record{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 99)})
}

// Each broken stream has a valid CRC and begins with a valid record.
func TestBrokenStreams(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		p := foreignDeflate(t, codec, raw1())
		for n := range p {
			if _, err := (&Rules{}).Accept(packed(t, codec, p[:n], 1), testNow); err == nil {
				t.Errorf("%s: a stream cut from %d to %d bytes is accepted", codec, len(p), n)
			}
		}
		for _, after := range [][]byte{{0}, []byte("trailing garbage"), {0x1f}} {
			_, err := (&Rules{}).Accept(packed(t, codec, append(bytes.Clone(p), after...), 1), testNow)
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != InvalidRecord {
				t.Errorf("%s: %q after the stream: %v", codec, after, err)
			}
		}
	}
}

func TestXerialFraming(t *testing.T) {
	chunk := func(p []byte) []byte {
		packed := s2.EncodeSnappy(nil, p)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(packed))), packed...)
	}
	header := append(xerialMagic[:len(xerialMagic):len(xerialMagic)], 0, 0, 0, 1, 0, 0, 0, 1)
	join := func(p ...[]byte) []byte { return bytes.Join(p, nil) }
	raw := raw1()
	for name, p := range map[string][]byte{
		"one chunk":    join(header, chunk(raw)),
		"many chunks":  join(header, chunk(raw[:1]), chunk(raw[1:50]), chunk(raw[50:])),
		"an empty one": join(header, chunk(nil), chunk(raw)),
		"raw":          s2.EncodeSnappy(nil, raw),
	} {
		t.Run(name, func(t *testing.T) { mustAccept(t, &Rules{}, packed(t, Snappy, p, 1)) })
	}
	for name, p := range map[string][]byte{
		"no chunk":                header,
		"version 0":               join(header[:8], make([]byte, 8), chunk(raw)),
		"a part of the header":    header[:10],
		"length 0":                join(header, make([]byte, 4), chunk(raw)),
		"a length beyond":         join(header, []byte{0, 0, 1, 0}, []byte{1}),
		"a negative length":       join(header, []byte{0xff, 0, 1, 0}, chunk(raw)),
		"a part of a length":      join(header, chunk(raw), []byte{0, 0}),
		"a second header":         join(header, chunk(raw[:50]), header, chunk(raw[50:])),
		"a block that lies":       join(header, []byte{0, 0, 0, 2, 0x7f, 0}),
		"a copy from before":      {4, 0x09, 0x05},
		"a copy of S2 (offset 0)": {8, 0x0c, 1, 2, 3, 4, 0x01, 0x00},
		"a claim of 4 GiB":        {0xff, 0xff, 0xff, 0xff, 0x0f, 0},
	} {
		wantKind(t, name, &Rules{}, packed(t, Snappy, p, 1), InvalidRecord, -1)
	}
}

// Frames that Java's reader and librdkafka's both accept are accepted.
func TestLz4Frames(t *testing.T) {
	raw := raw1()
	frame := func(opts ...lz4.Option) []byte {
		var buf bytes.Buffer
		w := lz4.NewWriter(&buf)
		must.OK(t, w.Apply(opts...))
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
		must.OK(t, w.Close())
		return buf.Bytes()
	}
	full := frame(lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(raw))))
	for name, p := range map[string][]byte{
		"plain":     frame(lz4.ChecksumOption(false)),
		"checksums": full,
		"4 MiB":     frame(lz4.BlockSizeOption(lz4.Block4Mb)),
		"thorough":  frame(lz4.CompressionLevelOption(lz4.Level9)),
	} {
		t.Run(name, func(t *testing.T) { mustAccept(t, &Rules{}, packed(t, Lz4, p, 1)) })
	}
	flip := func(p []byte, at int, bits byte) []byte {
		p = bytes.Clone(p)
		p[at] ^= bits
		if at == 4 || at == 5 { // correct the descriptor's checksum
			end := 6
			if p[4]&lz4FlagSize != 0 {
				end += 8
			}
			p[end] = byte(xxh32Sum(p[4:end]) >> 8)
		}
		return p
	}
	for name, p := range map[string][]byte{
		"another magic":      flip(full, 0, 1),
		"version 2":          flip(full, 4, 0xc0),
		"dependent blocks":   flip(full, 4, 0x20),
		"a dictionary":       flip(full, 4, 0x01),
		"block size 3":       flip(full, 5, 0x40),
		"reserved bits":      flip(full, 5, 0x01),
		"header checksum":    flip(full, 14, 1),
		"content size":       flip(flip(full, 6, 1), 5, 0),
		"block checksum":     flip(full, len(full)-12, 1),
		"content checksum":   flip(full, len(full)-1, 1),
		"two frames":         append(bytes.Clone(full), full...),
		"block too large":    flip(frame(lz4.BlockSizeOption(lz4.Block64Kb)), 9, 0x10),
		"skippable in front": append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, full...),
	} {
		_, err := (&Rules{}).Accept(packed(t, Lz4, p, 1), testNow)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != InvalidRecord {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A frame of the highest levels declares a window of up to 128 MiB, and costs only the memory that
// its content needs.
func TestZstdWindows(t *testing.T) {
	raw := raw1()
	stream := func(window int) []byte {
		var buf bytes.Buffer
		w, err := zstd.NewWriter(&buf, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		must.OK(t, err)
		for _, half := range [][]byte{raw[:50], raw[50:]} { // no single segment
			if _, err := w.Write(half); err != nil {
				t.Fatal(err)
			}
			must.OK(t, w.Flush())
		}
		must.OK(t, w.Close())
		return buf.Bytes()
	}
	wide := packed(t, Zstd, stream(128<<20), 1)
	if spent := allocated(func() { mustAccept(t, &Rules{}, wide) }); spent > 24<<20 {
		t.Errorf("a window of 128 MiB for 100 bytes took %d bytes of memory", spent)
	}
	payload := wide[HeaderSize:]
	for n := range payload {
		if _, err := (&Rules{}).Accept(packed(t, Zstd, payload[:n], 1), testNow); err == nil {
			t.Errorf("a wide frame cut from %d to %d bytes is accepted", len(payload), n)
		}
	}
	wantKind(t, "256 MiB", &Rules{}, packed(t, Zstd, stream(256<<20), 1), InvalidRecord, -1)

	long := bomb(t, Zstd, 20<<20)
	long[5] = (26 - 10) << 3 // 64 MiB, and more than 8 MiB of content
	b, _, err := Next(packed(t, Zstd, long, 1))
	must.OK(t, err)
	shared := sharedBudget()
	shared.wide.forget()
	mustAccept(t, &Rules{}, b)
	if spent := allocated(func() { mustAccept(t, &Rules{}, b) }); spent > 1<<20 {
		t.Errorf("the next wide frame took %d bytes of memory: its decoder was not reused", spent)
	}
	if shared.wide.kept != 32<<20 {
		t.Errorf("decoders for %d bytes of windows are kept", shared.wide.kept)
	}
	shared.wide.forget()
	if shared.wide.idle != nil {
		t.Error("the decoder for wide windows is kept")
	}
	if _, _, found, err := b.FindTimestamp(-1, 0, Limits{}); !found || err != nil {
		t.Error("a wide frame is not searched", err)
	}
	for _, r := range collect(t, b) {
		if len(r.Value) != 20<<20 {
			t.Errorf("value has %d bytes", len(r.Value))
		}
	}
	if used := shared.budget.Stats().Used; used != 0 {
		t.Errorf("%d bytes of the budget were not released", used)
	}

	single := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 1, 0x01, 0, 0} // 16 MiB in an empty block
	wantKind(t, "a size nobody sent", &Rules{}, packed(t, Zstd, single, 1), InvalidRecord, -1)
	wantKind(t, "a size over the limit", &Rules{MaxInflatedBytes: 1 << 20}, packed(t, Zstd, single, 1), TooLarge, -1)
}

// Each kind of block counts with its inflated size.
func TestZstdBlocks(t *testing.T) {
	block := func(kind, size, last int, data ...byte) []byte {
		word := size<<3 | kind<<1 | last
		return append([]byte{byte(word), byte(word >> 8), byte(word >> 16)}, data...)
	}
	raw := raw1() // ends with 99 times v, and the header count
	head := raw[:len(raw)-100]
	frame := func(blocks ...[]byte) []byte {
		return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, (27 - 10) << 3}, bytes.Join(blocks, nil)...)
	}
	good := frame(block(0, len(head), 0, head...), block(1, 99, 0, 'v'), block(0, 1, 1, 0))
	if n, rest, err := zstdBlocks(good[6:]); err != nil || n != uint64(len(raw)) || len(rest) > 0 {
		t.Errorf("blocks of %d bytes are counted as %d, %v", len(raw), n, err)
	}
	mustAccept(t, &Rules{}, packed(t, Zstd, good, 1))
	for name, p := range map[string][]byte{
		"a block of no kind": frame(block(3, 1, 1, 0)),
		"no last block":      frame(block(0, len(raw), 0, raw...)),
		"a block cut":        frame(block(0, len(raw)+1, 1, raw...)),
		"two frames":         append(bytes.Clone(good), good...),
	} {
		_, err := (&Rules{}).Accept(packed(t, Zstd, p, 1), testNow)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != InvalidRecord {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many goroutines convert every codec to every other, with invalid streams in between; most useful
// with -race.
func TestPoolsAreShared(t *testing.T) {
	var batches [][]byte
	for _, c := range allCodecs {
		batches = append(batches, foreignBatch(t, c, sample(), nil))
	}
	bad := packed(t, Gzip, foreignDeflate(t, Gzip, raw1())[:30], 1)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				to := allCodecs[(g+i)%len(allCodecs)]
				p := bytes.Clone(batches[(g*7+i)%len(batches)])
				_, b := mustAccept(t, &Rules{Compression: compression(t, to)}, p)
				if got := collect(t, b); len(got) != 3 || !bytes.Equal(got[1].Value, sample()[1].Value) {
					t.Errorf("records of another batch in this one")
				}
				if _, err := (&Rules{Compression: compression(t, to)}).Accept(bytes.Clone(bad), testNow); err == nil {
					t.Error("a bad stream was accepted")
				}
			}
		})
	}
	wg.Wait()
}

func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32Sum([]byte(in)); got != want {
			t.Errorf("xxh32(%q) = %08x, want %08x", in, got, want)
		}
	}
	long := noise(1000)
	var h xxh32
	h.reset()
	for p := long; len(p) > 0; {
		n := min(len(p), 1+len(p)%23)
		h.write(p[:n])
		p = p[n:]
	}
	if h.sum() != xxh32Sum(long) {
		t.Error("the sum depends on how the input is divided")
	}
}
