package record

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// inflater turns the compressed records of one batch into bytes. It is used by
// one goroutine at a time and reused for the next batch.
//
// open readies it; limit is how much its user will read at most, so that data
// that says it is larger is refused at once, with errInflated. Its memory is taken
// from the room, for which it may have to wait; a roomError means that it needs more
// than all of it. Read ends with
// io.EOF only when the compressed data was used up, to the last byte. close drops
// what it holds of the batch, and may be called more than once.
type inflater interface {
	open(p []byte, limit int64, r *decodeBudget) error
	io.Reader
	close()
}

// errTrailing: the compressed stream ends before the batch does. Readers differ
// in what they make of such bytes, so nobody gets to see any.
var errTrailing = errors.New("bytes are left after the end of the compressed stream")

// bufferKept is the largest buffer an inflater takes back into the pool with it.
const bufferKept = 1 << 20

// inflaters holds spare inflaters by codec; a cache and no state.
var inflaters = [Zstd + 1]sync.Pool{
	Gzip:   {New: func() any { return new(gzipInflater) }},
	Snappy: {New: func() any { return new(snappyInflater) }},
	Lz4:    {New: func() any { return new(lz4Inflater) }},
	Zstd:   {New: func() any { return new(zstdInflater) }},
}

// getInflater returns an inflater for a known codec other than None.
func getInflater(c Codec) inflater { return inflaters[c].Get().(inflater) }

func putInflater(c Codec, inf inflater) { inflaters[c].Put(inf) }

// gzipInflater reads RFC 1952 members, as many as there are.
type gzipInflater struct {
	src bytes.Reader
	z   gzip.Reader
}

func (g *gzipInflater) open(p []byte, _ int64, _ *decodeBudget) error {
	g.src.Reset(p)
	return g.z.Reset(&g.src)
}

func (g *gzipInflater) Read(p []byte) (int, error) {
	return g.z.Read(p)
}

func (g *gzipInflater) close() { g.src.Reset(nil) }

// sized returns a slice of n bytes, in buf if it has room.
func sized(buf []byte, n int) []byte {
	if cap(buf) >= n {
		return buf[:n]
	}
	return make([]byte, n)
}

// spare returns what to keep of a buffer for the next batch.
func spare(buf []byte) []byte {
	if cap(buf) > bufferKept {
		return nil
	}
	return buf[:0]
}
