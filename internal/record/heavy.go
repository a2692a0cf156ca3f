package record

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

const (
	// lightInflated is the largest inflated size for which Accept takes no longer than for a few
	// uncompressed batches: 128 KiB, one block of zstd, takes about 0.1 ms.
	lightInflated = 128 << 10
	// deflateRatio is the maximum expansion of gzip.
	deflateRatio = 1032
	// lz4Look is the largest compressed lz4 block whose sequences are counted, at 1.6 ns a byte:
	// more costs as much as the wake-up of another goroutine.
	lz4Look = 4 << 10
)

// Heavy reports whether Accept of these bytes may take long, so that the caller must not run it
// where other requests wait, and needs a place: they may inflate to more than 128 KiB, or must be
// compressed with another codec. Heavy reads the sizes in the compressed data, which takes some µs,
// and nothing if there is no compression. Bytes that Accept rejects before it inflates them are not
// heavy.
func (r *Rules) Heavy(p []byte) bool {
	if r.Compression == (Compression{}) && len(p) > atAttributes+1 && Codec(p[atAttributes+1]&attrCodec) == None {
		return false
	}
	b, err := single(p)
	if err != nil || b.Size() > r.maxBytes() {
		return false
	}
	if r.Compression.set && r.Compression.codec != None && r.Compression.codec != b.Codec() {
		return true
	}
	return b.Codec().Known() && b.Codec().inflatesMuch(b.payload())
}

// inflatesMuch reports whether compressed records may inflate to more than lightInflated. If an
// inflater would find an error, only the output before the error counts.
func (c Codec) inflatesMuch(p []byte) bool {
	const limit = lightInflated
	switch c {
	case None:
		return false
	case Snappy:
		return snappyBound(p, limit) > limit
	case Lz4:
		return lz4Bound(p, limit) > limit
	case Zstd:
		return zstdBound(p, limit) > limit
	}
	return len(p) > limit/deflateRatio
}

// The following bounds stop when they exceed limit.

// snappyBound adds up the sizes that the blocks claim; the inflater enforces them.
func snappyBound(p []byte, limit int64) (bound int64) {
	var s snappyInflater
	if s.begin(p, limit) != nil {
		return 0
	}
	for bound <= limit {
		chunk, err := s.chunk()
		if err != nil {
			break
		}
		n, _ := binary.Uvarint(chunk)
		bound += int64(min(n, 1<<32))
	}
	return bound
}

// lz4Bound adds up the maximum sizes of the blocks. Some writers declare blocks of up to 4 MiB,
// which is a poor bound for a small block: lz4Bound counts the sequences of such blocks.
func lz4Bound(p []byte, limit int64) (bound int64) {
	var l lz4Inflater
	if l.begin(p, limit) != nil {
		return 0
	}
	for bound <= limit {
		word, err := l.number()
		n := int(word &^ lz4Stored)
		if err != nil || n == 0 || n > l.largest || n > len(l.rest) {
			break
		}
		block := l.rest[:n]
		l.rest = l.rest[n:]
		if l.flags&lz4FlagBlockSum != 0 {
			l.rest = l.rest[min(4, len(l.rest)):]
		}
		size := int64(n)
		if word&lz4Stored == 0 {
			if size = int64(min(l.largest, n*lz4Ratio)); bound+size > limit && n <= lz4Look {
				size = lz4BlockBound(block, limit-bound)
			}
		}
		bound += size
	}
	return bound
}

// lz4BlockBound walks over the sequences of a block: a token with the lengths of literals and
// match, the literals, the match's offset. The last sequence has no match.
func lz4BlockBound(p []byte, limit int64) (bound int64) {
	length := func(n int64) int64 {
		for more := n == 15; more && len(p) > 0; p = p[1:] {
			n += int64(p[0])
			more = p[0] == 255
		}
		return n
	}
	for len(p) > 0 && bound <= limit {
		token := int64(p[0])
		p = p[1:]
		literals := length(token >> 4)
		bound += literals
		if literals+2 > int64(len(p)) {
			break // the end, or an error
		}
		p = p[literals+2:]
		bound += length(token&15) + 4
	}
	return bound
}

// zstdBound adds up the maximum sizes of the frame's blocks. Several frames, which no producer
// sends, exceed any limit, because each may have its own window.
func zstdBound(p []byte, limit int64) int64 {
	var h zstd.Header
	if h.Decode(p[:min(len(p), zstd.HeaderMaxSize)]) != nil {
		return 0
	}
	if h.Skippable {
		return limit + 1
	}
	bound, rest, err := zstdBlocks(p[h.HeaderSize:])
	if err == nil && len(zstdSum(h, rest)) > 0 {
		return limit + 1
	}
	return int64(bound)
}
