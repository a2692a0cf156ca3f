package record

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// inflater inflates the compressed records of one batch. It must not be used concurrently and is
// reused for the next batch.
//
// open prepares it. limit is the number of bytes that the caller will read at most: open returns
// errInflated at once for data that declares a larger size. open acquires memory from the budget
// and may wait for it; a budgetError means that it needs more than the whole budget. Read returns
// io.EOF only when the compressed data was used to the last byte. close releases everything that
// belongs to the batch, and may be called more than once.
type inflater interface {
	open(p []byte, limit int64, r *decodeBudget) error
	io.Reader
	close()
}

// errTrailing: the compressed stream ends before the batch does. Readers treat such bytes
// differently, so they are rejected.
var errTrailing = errors.New("bytes are left after the end of the compressed stream")

// bufferKept is the largest buffer that an inflater keeps in the pool.
const bufferKept = 1 << 20

// inflaters holds spare inflaters by codec.
var inflaters = [Zstd + 1]sync.Pool{
	Gzip:   {New: func() any { return new(gzipInflater) }},
	Snappy: {New: func() any { return new(snappyInflater) }},
	Lz4:    {New: func() any { return new(lz4Inflater) }},
	Zstd:   {New: func() any { return new(zstdInflater) }},
}

// getInflater returns an inflater for a known codec other than None.
func getInflater(c Codec) inflater { return inflaters[c].Get().(inflater) }

func putInflater(c Codec, inf inflater) { inflaters[c].Put(inf) }

// gzipInflater reads any number of RFC 1952 members.
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

// sized returns a slice of n bytes, in buf if it fits.
func sized(buf []byte, n int) []byte {
	if cap(buf) >= n {
		return buf[:n]
	}
	return make([]byte, n)
}

// spare returns the part of a buffer to keep for the next batch.
func spare(buf []byte) []byte {
	if cap(buf) > bufferKept {
		return nil
	}
	return buf[:0]
}
