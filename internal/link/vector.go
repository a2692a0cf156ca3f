package link

import (
	"github.com/chronik-io/chronik/internal/link/frame"
)

const (
	// maxWrite is about how many bytes a Source fills into a Vector.
	maxWrite = 1 << 20
	// maxParts bounds the pieces of a Vector; one writev takes 1024.
	maxParts = 1000
	// scratchChunk is the memory for the headers and fields of frames that is allocated at a time;
	// keptScratch bytes of it stay with a connection.
	scratchChunk = 16 << 10
	keptScratch  = 256 << 10
)

// Releaser is memory that a frame refers to. Release is called once, when the frame is written or
// will never be. It must not block. It is an alias so that packages that declare the methods of
// Vector as an interface need not import this one.
type Releaser = interface{ Release() }

// Vector collects frames for one write. Begin and End add a frame.
type Vector struct {
	version uint8
	parts   [][]byte
	held    []Releaser
	size    int

	chunks [][]byte
	chunk  int // the one in use
	used   int // of it
}

// Full reports whether the Vector should get no more frames. It may be exceeded by one frame.
func (v *Vector) Full() bool { return v.size >= maxWrite || len(v.parts) >= maxParts }

// Begin returns space for n bytes at the start of a frame's payload, to append to. It is valid
// until the next call of a method.
func (v *Vector) Begin(n int) []byte {
	need := frame.HeaderSize + n
	for v.chunk < len(v.chunks) && len(v.chunks[v.chunk])-v.used < need {
		v.chunk++
		v.used = 0
	}
	if v.chunk == len(v.chunks) {
		v.chunks = append(v.chunks, make([]byte, max(need, scratchChunk)))
		v.used = 0
	}
	at := v.used + frame.HeaderSize
	return v.chunks[v.chunk][at : at : at+n]
}

// End adds a frame whose payload is fields, which began with Begin, and then body. body must not
// change until held is released; held may be nil.
func (v *Vector) End(k frame.Kind, flags uint8, fields []byte, held Releaser, body ...[]byte) {
	chunk := v.chunks[v.chunk]
	end := v.used + frame.HeaderSize + len(fields)
	if end > len(chunk) { // more was appended than Begin was asked for
		chunk = make([]byte, frame.HeaderSize+len(fields))
		v.chunks = append(v.chunks, chunk)
		v.chunk, v.used, end = len(v.chunks)-1, 0, len(chunk)
	}
	p := chunk[v.used:end]
	if len(fields) > 0 && &p[frame.HeaderSize] != &fields[0] {
		copy(p[frame.HeaderSize:], fields)
	}
	frame.PutHeader(p, k, v.version, flags, p[frame.HeaderSize:], body...)
	if n := len(v.parts); n > 0 && v.used > 0 && follows(v.parts[n-1], chunk[:v.used]) {
		v.parts[n-1] = chunk[v.used-len(v.parts[n-1]) : end]
	} else {
		v.parts = append(v.parts, p)
	}
	v.used = end
	v.size += len(p)
	for _, b := range body {
		if len(b) > 0 {
			v.parts = append(v.parts, b)
			v.size += len(b)
		}
	}
	if held != nil {
		v.held = append(v.held, held)
	}
}

// follows reports whether part is the end of chunk, so that what comes next in the chunk extends
// it.
func follows(part, chunk []byte) bool {
	return len(part) <= len(chunk) && &part[len(part)-1] == &chunk[len(chunk)-1]
}

// empty reports whether there is no frame.
func (v *Vector) empty() bool { return len(v.parts) == 0 }

// reset releases the memory of all frames.
func (v *Vector) reset() {
	for _, h := range v.held {
		h.Release()
	}
	clear(v.held)
	clear(v.parts)
	v.held, v.parts, v.size = v.held[:0], v.parts[:0], 0
	kept, size := v.chunks[:0], 0
	for _, c := range v.chunks {
		if size += len(c); size <= keptScratch {
			kept = append(kept, c)
		}
	}
	clear(v.chunks[len(kept):])
	v.chunks, v.chunk, v.used = kept, 0, 0
}
