package record

import (
	"errors"
	"io"
	"math/bits"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A zstd frame (RFC 8878) declares the window that its reader must keep, and readers allocate it
// before they see any data. Producers declare more than they need: 2 MiB for a batch of 100 bytes
// is usual, and the levels 20 to 22 declare up to 128 MiB. The inflater therefore counts the blocks
// first, reduces the window to the size that they can fill, and acquires that from the budget.
const (
	zstdMaxWindow = 128 << 20 // the limit of zstd's command line and of Java's reader
	zstdBlock     = 128 << 10
)

var (
	errZstdFrame  = errors.New("zstd: not a valid frame")
	errZstdWindow = errors.New("zstd: the frame declares a window of more than 128 MiB")
)

// wideIdle is how long decoders for wide windows are kept for the next batch. Creating a decoder
// for each of many batches would keep a processor busy with clearing memory.
const wideIdle = time.Second

// wideDecoder is a decoder for windows of more than bufferKept.
type wideDecoder struct {
	*zstd.Decoder
	window int64 // the widest that it has had
}

// wideDecoders are the idle decoders of a budget: together they use no more memory than the budget,
// and none after wideIdle.
type wideDecoders struct {
	mu   sync.Mutex
	idle []*wideDecoder
	kept int64 // bytes of their windows
	drop *time.Timer
}

// take returns a decoder for windows of at most so many bytes, which is always the same number.
func (w *wideDecoders) take(most int64) (*wideDecoder, error) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		dec := w.idle[n-1]
		w.idle[n-1] = nil
		w.idle = w.idle[:n-1]
		w.kept -= dec.window
		w.mu.Unlock()
		return dec, nil
	}
	w.mu.Unlock()
	dec, err := newZstdDecoder(uint64(most))
	return &wideDecoder{Decoder: dec}, err
}

// put keeps a decoder for a while, unless the kept ones would exceed most bytes.
func (w *wideDecoders) put(dec *wideDecoder, most int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept+dec.window > most || dec.Reset(nil) != nil {
		dec.Close()
		return
	}
	w.idle = append(w.idle, dec)
	w.kept += dec.window
	if w.drop == nil {
		w.drop = time.AfterFunc(wideIdle, w.forget)
	} else {
		w.drop.Reset(wideIdle)
	}
}

// forget drops the idle decoders.
func (w *wideDecoders) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dec := range w.idle {
		dec.Close()
	}
	w.idle, w.kept = nil, 0
}

// zstdInput is the batch's bytes, with a separate header of the first frame if it was changed.
type zstdInput struct{ head, rest []byte }

func (in *zstdInput) Read(p []byte) (int, error) {
	if len(in.head) == 0 {
		in.head, in.rest = in.rest, nil
	}
	if len(in.head) == 0 {
		return 0, io.EOF
	}
	n := copy(p, in.head)
	in.head = in.head[n:]
	return n, nil
}

type zstdInflater struct {
	dec    *zstd.Decoder // for windows up to bufferKept; created once
	wide   *wideDecoder  // replaces dec for this batch only
	from   *decodeBudget // of wide
	header [zstd.HeaderMaxSize]byte
	in     zstdInput
	decodeHold
}

func (z *zstdInflater) open(p []byte, limit int64, r *decodeBudget) error {
	window, err := z.fit(p, limit, r)
	if err == nil {
		err = z.take(r, window)
	}
	if err != nil {
		return err
	}
	if window > bufferKept {
		if z.wide, err = r.wide.take(r.size); err != nil {
			z.wide = nil
			return err
		}
		z.from, z.wide.window = r, max(z.wide.window, window)
		return z.wide.Reset(&z.in)
	}
	if z.dec == nil {
		if z.dec, err = newZstdDecoder(bufferKept); err != nil {
			return err
		}
	}
	return z.dec.Reset(&z.in)
}

// newZstdDecoder returns a decoder that works on its caller's goroutine.
func newZstdDecoder(window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(window))
}

// fit prepares the input and returns the window that its only frame needs. Several frames, which no
// producer sends, get the whole budget, because each may declare its own window.
func (z *zstdInflater) fit(p []byte, limit int64, r *decodeBudget) (int64, error) {
	z.in = zstdInput{rest: p}
	var h zstd.Header
	if err := h.Decode(p[:min(len(p), zstd.HeaderMaxSize)]); err != nil {
		return 0, errZstdFrame
	}
	if h.Skippable {
		return r.size, nil
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return 0, errInflated
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if window > zstdMaxWindow {
		return 0, errZstdWindow
	}
	bound, rest, err := zstdBlocks(p[h.HeaderSize:])
	if err != nil {
		return 0, err
	}
	if h.SingleSegment && bound < window {
		return 0, errZstdFrame // the blocks cannot fill the declared size
	}
	if fits := uint64(1) << bits.Len64(max(bound, zstdBlock)-1); fits < window && !h.SingleSegment {
		// Byte 5 is the window descriptor: the exponent over 2^10 in bits 3 to 7.
		head := z.header[:copy(z.header[:], p[:h.HeaderSize])]
		head[5] = byte(bits.Len64(fits)-1-10) << 3
		z.in = zstdInput{head: head, rest: p[h.HeaderSize:]}
		window = fits
	}
	if len(zstdSum(h, rest)) > 0 {
		return r.size, nil
	}
	return int64(window), nil
}

// zstdSum skips the checksum after a frame's blocks, if the frame has one.
func zstdSum(h zstd.Header, p []byte) []byte {
	if h.HasCheckSum {
		return p[min(4, len(p)):]
	}
	return p
}

// zstdBlocks returns an upper bound of the inflated size of a frame's blocks, and the bytes after
// them. On an error, bound is that of the blocks before it.
func zstdBlocks(p []byte) (bound uint64, rest []byte, err error) {
	for {
		if len(p) < 3 {
			return bound, nil, errZstdFrame
		}
		word := uint(p[0]) | uint(p[1])<<8 | uint(p[2])<<16
		size := word >> 3
		inflated := uint64(size)
		switch p = p[3:]; word >> 1 & 3 {
		case 1: // one byte, repeated; 0: stored
			size = 1
		case 2: // compressed
			inflated = zstdBlock
		case 3:
			return bound, nil, errZstdFrame
		}
		if uint(len(p)) < size {
			return bound, nil, errZstdFrame
		}
		bound += inflated
		if p = p[size:]; word&1 != 0 {
			return bound, p, nil
		}
	}
}

func (z *zstdInflater) Read(p []byte) (int, error) {
	dec := z.dec
	if z.wide != nil {
		dec = z.wide.Decoder
	}
	n, err := dec.Read(p)
	if errors.Is(err, io.EOF) && len(z.in.head)+len(z.in.rest) > 0 {
		err = errTrailing
	}
	return n, err
}

func (z *zstdInflater) close() {
	z.in = zstdInput{}
	switch {
	case z.wide != nil:
		z.from.wide.put(z.wide, z.from.size)
	case z.dec != nil:
		// Reset fails only for a closed decoder, and this one is never closed.
		_ = z.dec.Reset(nil)
	}
	z.wide, z.from = nil, nil
	z.release()
}
