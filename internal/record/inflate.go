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

// Inflate returns what p inflates to, which is compressed as a batch's records are. limit bounds
// the bytes of the result, and of the memory for it: the error is then an *Error with the reason
// TooLarge, otherwise InvalidRecord. It may wait for memory that batches are inflated in.
func Inflate(c Codec, p []byte, limit int) ([]byte, error) {
	if c == None {
		return p, nil
	}
	if !c.Known() {
		return nil, refuse(InvalidRecord, "unknown %s", c)
	}
	inf := getInflater(c)
	defer func() { inf.close(); putInflater(c, inf) }()
	err := inf.open(p, int64(limit), sharedBudget())
	var out []byte
	if err == nil {
		out, err = io.ReadAll(io.LimitReader(inf, int64(limit)+1))
	}
	_, budget := errors.AsType[budgetError](err)
	switch {
	case budget || errors.Is(err, errInflated) || err == nil && len(out) > limit:
		return nil, refuse(TooLarge, "the %s data inflates to more than %d bytes", c, limit)
	case err != nil:
		return nil, refuse(InvalidRecord, "the %s data cannot be inflated: %v", c, err)
	}
	return out, nil
}
