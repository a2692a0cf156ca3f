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
// make room for it before they see any data. Up to 8 MiB, which the RFC asks of
// everybody, that is granted. Frames of the levels 20 to 22 name up to 128 MiB,
// mostly for no reason: there the blocks are counted first, the window is cut to
// what they can fill, and what still needs more than 8 MiB gets a decoder of its
// own, one at a time.
const (
	zstdWindow     = 8 << 20
	zstdWideWindow = 128 << 20 // the limit of zstd's command line and of Java's reader
	zstdBlock      = 128 << 10
)

var (
	errZstdFrame  = errors.New("zstd: not a valid frame")
	errZstdWindow = errors.New("zstd: the frame asks for a window of more than 128 MiB")
)

// wideIdle is how long the decoder for wide windows is kept for the next batch. To make
// one for each of many batches would keep a processor busy with clearing memory.
const wideIdle = time.Second

// wideDecoder is the decoder for wide windows, which one batch at a time may use.
type wideDecoder struct {
	turn chan struct{} // held by its user
	mu   sync.Mutex
	idle *zstd.Decoder // of the last user, until drop
	drop *time.Timer
}

// sharedWide is a cache and no state.
var sharedWide = wideDecoder{turn: make(chan struct{}, 1)}

// take waits for the turn and returns a decoder. It blocks, so a poller must not come here:
// what needs a wide window is Heavy. After an error the caller must give nil back.
func (w *wideDecoder) take() (*zstd.Decoder, error) {
	w.turn <- struct{}{}
	w.mu.Lock()
	dec := w.idle
	w.idle = nil
	w.mu.Unlock()
	if dec != nil {
		return dec, nil
	}
	return newZstdDecoder(zstdWideWindow)
}

// give ends the turn and keeps the decoder for a while.
func (w *wideDecoder) give(dec *zstd.Decoder) {
	if dec != nil && dec.Reset(nil) == nil {
		w.mu.Lock()
		if w.idle = dec; w.drop == nil {
			w.drop = time.AfterFunc(wideIdle, w.forget)
		} else {
			w.drop.Reset(wideIdle)
		}
		w.mu.Unlock()
	}
	<-w.turn
}

// forget drops the decoder if it is idle.
func (w *wideDecoder) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle != nil {
		w.idle.Close()
		w.idle = nil
	}
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
	dec    *zstd.Decoder // for windows up to zstdWindow; made once
	wide   *zstd.Decoder // instead of it, for this batch only
	turn   bool          // wide is the shared one
	header [zstd.HeaderMaxSize]byte
	in     zstdInput
}

func (z *zstdInflater) open(p []byte, limit int64, polite bool) error {
	window, err := z.fit(p, limit)
	if err != nil {
		return err
	}
	if window > zstdWindow {
		if z.turn = polite; polite {
			z.wide, err = sharedWide.take()
		} else {
			z.wide, err = newZstdDecoder(zstdWideWindow)
		}
		if err != nil {
			return err
		}
		return z.wide.Reset(&z.in)
	}
	if z.dec == nil {
		if z.dec, err = newZstdDecoder(zstdWindow); err != nil {
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

// fit readies the input and returns the window its first frame needs. A later
// frame gets no more than the first.
func (z *zstdInflater) fit(p []byte, limit int64) (uint64, error) {
	z.in = zstdInput{rest: p}
	var h zstd.Header
	if err := h.Decode(p[:min(len(p), zstd.HeaderMaxSize)]); err != nil {
		return 0, errZstdFrame
	}
	if h.Skippable {
		return 0, nil
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return 0, errInflated
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if window <= zstdWindow {
		return window, nil
	}
	if window > zstdWideWindow {
		return 0, errZstdWindow
	}
	bound, _, err := zstdBlocks(p[h.HeaderSize:])
	if err != nil {
		return 0, err
	}
	if h.SingleSegment {
		if bound < window {
			return 0, errZstdFrame // the blocks cannot fill what the header promises
		}
		return window, nil
	}
	if fits := uint64(1) << bits.Len64(max(bound, zstdBlock)-1); fits < window {
		// Byte 5 is the window descriptor: the exponent over 2^10 in bits 3 to 7.
		head := z.header[:copy(z.header[:], p[:h.HeaderSize])]
		head[5] = byte(bits.Len64(fits)-1-10) << 3
		z.in = zstdInput{head: head, rest: p[h.HeaderSize:]}
		window = fits
	}
	return window, nil
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
		dec = z.wide
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
	case z.turn:
		sharedWide.give(z.wide)
	case z.wide != nil:
		z.wide.Close()
	case z.dec != nil:
		// The error is of a closed decoder only, and this one never is.
		_ = z.dec.Reset(nil)
	}
	z.wide, z.turn = nil, false
}
