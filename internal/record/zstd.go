package record

import (
	"errors"
	"io"
	"math/bits"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A zstd frame (RFC 8878) names the window its reader must remember, and readers
// make room for it before they see any data. Producers name more than they need: 2 MiB for
// a batch of 100 bytes is usual, and the levels 20 to 22 name up to 128 MiB. So the blocks are
// counted first, the window is cut to what they can fill, and that is taken from the room.
const (
	zstdMaxWindow = 128 << 20 // the limit of zstd's command line and of Java's reader
	zstdBlock     = 128 << 10
)

var (
	errZstdFrame  = errors.New("zstd: not a valid frame")
	errZstdWindow = errors.New("zstd: the frame asks for a window of more than 128 MiB")
)

// wideIdle is how long decoders for wide windows are kept for the next batch. To make
// one for each of many batches would keep a processor busy with clearing memory.
const wideIdle = time.Second

// wideDecoder is a decoder for windows of more than bufferKept.
type wideDecoder struct {
	*zstd.Decoder
	window int64 // the widest that it had
}

// wideDecoders are those of a room that no batch uses: together they have no more memory than
// the room, and none after wideIdle.
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

// give keeps a decoder for a while, if those that are kept and it have at most so many bytes.
func (w *wideDecoders) give(dec *wideDecoder, most int64) {
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

// forget drops the decoders that no batch uses.
func (w *wideDecoders) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dec := range w.idle {
		dec.Close()
	}
	w.idle, w.kept = nil, 0
}

// zstdInput is the batch's bytes, the header of the first frame apart where it
// was changed.
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
	dec    *zstd.Decoder // for windows up to bufferKept; made once
	wide   *wideDecoder  // instead of it, for this batch only
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

// fit readies the input and returns the window it needs: that of its only frame. Several
// frames, which no producer sends, get all of the room, as each may name a window.
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
		return 0, errZstdFrame // the blocks cannot fill what the header promises
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

// zstdSum skips the checksum behind a frame's blocks, if the frame has one.
func zstdSum(h zstd.Header, p []byte) []byte {
	if h.HasCheckSum {
		return p[min(4, len(p)):]
	}
	return p
}

// zstdBlocks returns the most that the blocks of a frame can inflate to, and what follows
// them. With an error, bound is of the blocks before it.
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
		z.from.wide.give(z.wide, z.from.size)
	case z.dec != nil:
		// The error is of a closed decoder only, and this one never is.
		_ = z.dec.Reset(nil)
	}
	z.wide, z.from = nil, nil
	z.release()
}
