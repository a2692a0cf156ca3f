package record

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

const (
	// lightInflated is what a batch may inflate to at most so that Accept takes no longer
	// than a few plain ones: 128 KiB, which is one block of zstd, take about 0.1 ms.
	lightInflated = 128 << 10
	// deflateRatio is how many bytes one byte of gzip can stand for at most.
	deflateRatio = 1032
	// lz4Look is how large a block of lz4 is that is looked into, which takes 1.6 ns a
	// byte: more costs as much as another goroutine's wake-up.
	lz4Look = 4 << 10
)

// Heavy reports whether Accept of these bytes may take long, or wait for a turn, and so
// belongs where nothing else waits for it: they may inflate to more than 128 KiB, or are
// to be compressed with another codec than they have. It reads the sizes that the
// compressed data is made of, which takes some µs, and none where there is no
// compression. Bytes that Accept refuses before it inflates them are not heavy.
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

// inflatesMuch reports whether compressed records may inflate to more than lightInflated.
// Where an inflater finds an error, what it makes of the bytes before that counts.
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

// The bounds below stop when they pass limit.

// snappyBound sums what the blocks say, which the inflater holds them to.
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

// lz4Bound sums what the blocks can stand for. Some writers allow blocks of 4 MiB, which
// says little of a small one: that is looked into.
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

// lz4BlockBound walks over the sequences of a block: a token with the lengths of literals
// and match, the literals, the match's offset. The last sequence has no match.
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

// zstdBound sums what the blocks of the frame can inflate to. Several frames, which no
// producer sends, are more than any limit, as each may have a window of its own.
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
