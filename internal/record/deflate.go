package record

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// deflater compresses the records of one batch: reset, any number of writes, Close, and again. It
// must not be used concurrently. After an error only reset is allowed.
type deflater interface {
	reset(dst io.Writer) error
	io.WriteCloser
}

// zstdEncodeWindow suffices for the batches of a default message.max.bytes.
const zstdEncodeWindow = 1 << 20

// recoders holds spare recoders by codec and level. zstd's levels are the four that the library
// supports.
var recoders struct {
	none   sync.Pool
	gzip   [gzipMax + 1]sync.Pool // index 0: gzipDefault
	snappy sync.Pool
	lz4    [lz4Max + 1]sync.Pool
	zstd   [zstd.SpeedBestCompression + 1]sync.Pool
}

// pool returns the pool of spare recoders for c.
func (c Compression) pool() *sync.Pool {
	switch c.codec {
	case Gzip:
		return &recoders.gzip[max(c.level, 0)]
	case Snappy:
		return &recoders.snappy
	case Lz4:
		return &recoders.lz4[c.level]
	case Zstd:
		return &recoders.zstd[sharedBudget().zstdLevel(c.level)]
	}
	return &recoders.none
}

func (c Compression) deflater() (deflater, error) {
	switch c.codec {
	case Gzip:
		w, err := gzip.NewWriterLevel(io.Discard, c.level)
		return gzipWriter{w}, err
	case Snappy:
		return newXerialWriter(), nil
	case Lz4:
		return newLz4Writer(c.level), nil
	case Zstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(zstdEncodeWindow), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true),
			zstd.WithEncoderLevel(sharedBudget().zstdLevel(c.level)))
		return zstdWriter{w}, err
	}
	return new(plainWriter), nil
}

type gzipWriter struct{ *gzip.Writer }

func (w gzipWriter) reset(dst io.Writer) error {
	w.Reset(dst)
	return nil
}

type zstdWriter struct{ *zstd.Encoder }

func (w zstdWriter) reset(dst io.Writer) error {
	w.Reset(dst)
	return nil
}

// plainWriter is the deflater for None.
type plainWriter struct{ io.Writer }

func (w *plainWriter) reset(dst io.Writer) error {
	w.Writer = dst
	return nil
}

func (w *plainWriter) Close() error { return nil }

// blockWriter divides what is written to it into blocks of the capacity of block, and writes each
// one packed.
type blockWriter struct {
	dst   io.Writer
	block []byte                       // not yet compressed
	pack  func([]byte) ([]byte, error) // the result is valid until the next call
}

func (w *blockWriter) begin(dst io.Writer, header []byte) error {
	w.dst, w.block = dst, w.block[:0]
	_, err := dst.Write(header)
	return err
}

func (w *blockWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := copy(w.block[len(w.block):cap(w.block)], p)
		w.block, p = w.block[:len(w.block)+n], p[n:]
		if len(w.block) == cap(w.block) {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

func (w *blockWriter) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	packed, err := w.pack(w.block)
	if err == nil {
		_, err = w.dst.Write(packed)
	}
	w.block = w.block[:0]
	return err
}

// finish writes the last block and the trailer.
func (w *blockWriter) finish(trailer []byte) error {
	err := w.flush()
	if err == nil && len(trailer) > 0 {
		_, err = w.dst.Write(trailer)
	}
	w.dst = nil
	return err
}

// recoder builds the batch that replaces a batch with another codec: the caller writes the inflated
// records to it, and finish returns the batch.
type recoder struct {
	c   Compression
	w   deflater // always writes to out
	out output
}

// output collects a batch, header first, and rejects bytes beyond max.
type output struct {
	buf []byte
	max int
}

func (o *output) Write(p []byte) (int, error) {
	if len(o.buf)+len(p) > o.max {
		return 0, refuse(TooLarge, "the record batch exceeds the limit of %d bytes after compression", o.max)
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

// recoder returns a recoder that starts with b's header. maxBytes bounds the result. The caller
// must call release.
func (c Compression) recoder(b Batch, maxBytes int) (*recoder, error) {
	r, ok := c.pool().Get().(*recoder)
	if !ok {
		w, err := c.deflater()
		if err != nil {
			return nil, fmt.Errorf("create a %s compressor: %w", c.codec, err)
		}
		r = &recoder{w: w}
	}
	r.c = c
	r.out = output{buf: append(make([]byte, 0, len(b)), b[:HeaderSize]...), max: maxBytes}
	if err := r.w.reset(&r.out); err != nil {
		r.release()
		return nil, r.failed(err)
	}
	return r, nil
}

func (r *recoder) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	return n, r.failed(err)
}

// finish returns the batch. It sets the codec and the length, not the CRC. The caller counts
// its length if it keeps it, so it holds no more than twice as much.
func (r *recoder) finish() (Batch, error) {
	if err := r.w.Close(); err != nil {
		return nil, r.failed(err)
	}
	b := Batch(r.out.buf)
	if cap(b) > 2*len(b) {
		b = slices.Clone(b)
	}
	b.setLength()
	b.setCodec(r.c.codec)
	return b, nil
}

// failed adds context to an error, unless it is the *Error of a batch that grew too large.
func (r *recoder) failed(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return fmt.Errorf("compress a record batch with %s: %w", r.c.codec, err)
}

func (r *recoder) release() {
	r.out = output{}
	r.c.pool().Put(r)
}
