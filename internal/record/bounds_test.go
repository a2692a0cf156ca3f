package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// These tests verify the inner bounds, even if a later check would reject the same input at a
// higher cost.

// The walk over a snappy block trusts only the sizes that it has counted.
func TestSnappyLen(t *testing.T) {
	long := noise(70_000)
	for name, c := range map[string]struct {
		p    []byte
		want int64 // -1: rejected
	}{
		"empty block":        {[]byte{0}, 0},
		"literal":            {[]byte{4, 0x0c, 1, 2, 3, 4}, 4},
		"short copy":         {[]byte{8, 0x0c, 1, 2, 3, 4, 0x01, 4}, 8},
		"longer copy":        {[]byte{68, 0x0c, 1, 2, 3, 4, 0xfe, 4, 0}, 68},
		"longest copy":       {[]byte{68, 0x0c, 1, 2, 3, 4, 0xff, 1, 0, 0, 0}, 68},
		"long literal":       {s2.EncodeSnappy(nil, long), 70_000},
		"repeats":            {s2.EncodeSnappy(nil, bytes.Repeat(long[:77], 500)), 77 * 500},
		"nothing":            {nil, -1},
		"S2 repeat":          {[]byte{12, 0x0c, 1, 2, 3, 4, 0x01, 4, 0x01, 0}, -1},
		"copy from before":   {[]byte{8, 0x0c, 1, 2, 3, 4, 0x01, 5}, -1},
		"more than promised": {[]byte{3, 0x0c, 1, 2, 3, 4}, -1},
		"less than promised": {[]byte{5, 0x0c, 1, 2, 3, 4}, -1},
		"literal cut":        {[]byte{4, 0x0c, 1, 2, 3}, -1},
		"copy cut":           {[]byte{68, 0x0c, 1, 2, 3, 4, 0xff, 1, 0, 0}, -1},
		"length of 33 bits":  {[]byte{0x80, 0x80, 0x80, 0x80, 0x10}, -1},
	} {
		n, err := snappyLen(c.p)
		if (err != nil) != (c.want < 0) || err == nil && n != c.want {
			t.Errorf("%s: %d, %v, want %d", name, n, err, c.want)
		}
	}
}

// A block that is too large is rejected before memory is allocated for it.
func TestRawSnappyIsBounded(t *testing.T) {
	p := packed(t, Snappy, s2.EncodeSnappy(nil, make([]byte, 20<<20)), 1)
	spent := allocated(func() { wantKind(t, "20 MiB", &Rules{MaxInflatedBytes: 1 << 20}, p, TooLarge, -1) })
	if spent > 8<<20 {
		t.Errorf("took %d bytes of memory", spent)
	}
}

// An lz4 block is no larger than its frame declares: a reader's buffer has that size.
func TestLz4BlockIsNoLargerThanItsFrameAllows(t *testing.T) {
	frame := func(n int) []byte {
		raw := foreignRecord(0, 0, Record{Value: make([]byte, n)})
		p := binary.LittleEndian.AppendUint32(append([]byte{}, lz4FrameHeader[:]...), uint32(len(raw))|lz4Stored)
		return packed(t, Lz4, append(append(p, raw...), 0, 0, 0, 0), 1)
	}
	mustAccept(t, &Rules{}, frame(lz4Block-20))
	wantKind(t, "more than 64 KiB", &Rules{}, frame(lz4Block), InvalidRecord, -1)
}

// A declared size beyond the limit is rejected before anything is inflated.
func TestDeclaredSizeIsRefusedAtOnce(t *testing.T) {
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	raw := raw1()
	must.OK(t, w.Apply(lz4.SizeOption(uint64(len(raw)))))
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	must.OK(t, w.Close())
	wantKind(t, "lz4", &Rules{MaxInflatedBytes: int64(len(raw) - 1)}, packed(t, Lz4, buf.Bytes(), 1), TooLarge, -1)
	mustAccept(t, &Rules{MaxInflatedBytes: int64(len(raw))}, packed(t, Lz4, buf.Bytes(), 1))

	huge := buf.Bytes() // the size is only declared
	huge[6+5] = 1
	huge[14] = byte(xxh32Sum(huge[4:14]) >> 8)
	wantKind(t, "a terabyte of lz4", &Rules{}, packed(t, Lz4, huge, 1), TooLarge, -1)

	liar := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 6, 0x01, 0, 0} // 100 MiB in an empty block
	spent := allocated(func() { wantKind(t, "zstd", &Rules{}, packed(t, Zstd, liar, 1), InvalidRecord, -1) })
	if spent > 1<<20 {
		t.Errorf("a declared size took %d bytes of memory", spent)
	}
}

// Data of exactly the limit may be inflated, one byte more may not.
func TestLimitIsExact(t *testing.T) {
	raw := bytes.Repeat(noise(100), 1000)
	for _, codec := range allCodecs[1:] {
		p := foreignDeflate(t, codec, raw)
		if got, err := inflateAll(codec, p, int64(len(raw))); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: at the limit: %v", codec, err)
		}
		if _, err := inflateAll(codec, p, int64(len(raw)-1)); !errors.Is(err, errInflated) {
			t.Errorf("%s: a byte over the limit: %v", codec, err)
		}
	}
}

// One large record does not increase the memory of later batches.
func TestLargeWindowsAreNotKept(t *testing.T) {
	w := getWindow()
	putWindow(w, make([]byte, 0, windowKept+1))
	if v := getWindow(); cap(*v) > windowKept {
		t.Errorf("a window of %d bytes was kept", cap(*v))
	}
	if spare(make([]byte, bufferKept+1)) != nil || cap(spare(make([]byte, bufferKept))) != bufferKept {
		t.Error("large buffers are kept, or small ones are not")
	}
}
