package record

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// deflater compresses the records of one batch: reset, any number of writes,
// Close, and again. It is used by one goroutine at a time. After an error only
// reset is allowed.
type deflater interface {
	reset(dst io.Writer) error
	io.WriteCloser
}

// zstdEncodeWindow is enough for the batches of a default message.max.bytes.
const zstdEncodeWindow = 1 << 20

// recoders holds spare recoders by codec and level; a cache and no state. zstd's
// levels are the four that the library knows.
var recoders struct {
	none   sync.Pool
	gzip   [gzipMax + 1]sync.Pool // index 0: gzipDefault
	snappy sync.Pool
	lz4    [lz4Max + 1]sync.Pool
	zstd   [zstd.SpeedBestCompression + 1]sync.Pool
}

// pool returns where the spare recoders for c are kept.
func (c Compression) pool() *sync.Pool {
	switch c.codec {
	case Gzip:
		return &recoders.gzip[max(c.level, 0)]
	case Snappy:
		return &recoders.snappy
	case Lz4:
		return &recoders.lz4[c.level]
	case Zstd:
		return &recoders.zstd[sharedRoom().zstdLevel(c.level)]
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
			zstd.WithEncoderLevel(sharedRoom().zstdLevel(c.level)))
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

// recoder builds the batch that replaces one of another codec: the records are
// written to it as they are, finish returns the batch.
type recoder struct {
	c   Compression
	w   deflater // writes to out, always
	out output
}

// output collects a batch, header first, and refuses to grow beyond max.
type output struct {
	buf []byte
	max int
}

func (o *output) Write(p []byte) (int, error) {
	if len(o.buf)+len(p) > o.max {
		return 0, refuse(TooLarge, "the record batch takes more than the %d bytes that are allowed after compression", o.max)
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

// recoder returns one that starts with b's header. maxBytes bounds the result. It
// goes back with release.
func (c Compression) recoder(b Batch, maxBytes int) (*recoder, error) {
	r, ok := c.pool().Get().(*recoder)
	if !ok {
		w, err := c.deflater()
		if err != nil {
			return nil, fmt.Errorf("make a %s compressor: %w", c.codec, err)
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

// finish returns the batch. Its codec and length are set, its CRC is not.
func (r *recoder) finish() (Batch, error) {
	if err := r.w.Close(); err != nil {
		return nil, r.failed(err)
	}
	b := Batch(r.out.buf)
	b.setLength()
	b.setCodec(r.c.codec)
	return b, nil
}

// failed names what failed where it is more than a batch that grew too large.
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
