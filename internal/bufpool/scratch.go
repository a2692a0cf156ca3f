package bufpool

import (
	"runtime"
	"sync"
)

// Scratch is memory to encode into before the size is known. What turns out to be large stays in
// it, without a copy.
//
// Encoding appends, and what is appended to a slice of the heap grows: a large answer would
// allocate five times its size, and be copied to its place. The collector would then let the heap
// grow by as much again. So the memory is mapped apart from the heap: the system adds pages to a
// large range of addresses as they are written, and takes them back at the release. Where there is
// no such range, the memory is on the heap.
type Scratch struct {
	mem     []byte // all of it
	mapped  bool   // mem is mapped, not on the heap
	held    bool   // Hold was called
	cleanup runtime.Cleanup
}

const (
	// scratchSpace is the range of addresses of a scratch, in bytes. Only written pages are memory.
	scratchSpace = 64 << 20
	// SmallScratch is how many bytes a scratch may have written and still be used again. More is
	// for Hold.
	SmallScratch = 64 << 10
)

// scratches has those that are free. The collector drops them if they are not used for some time.
var scratches = sync.Pool{New: func() any { return newScratch(scratchSpace) }}

// GetScratch returns memory of its own, to be released.
func GetScratch() *Scratch { return scratches.Get().(*Scratch) }

// newScratch returns a scratch of n bytes; one without memory if none can be mapped.
func newScratch(n int) *Scratch {
	s := &Scratch{}
	if mem, err := mapMemory(n); err == nil {
		s.own(mem)
	}
	return s
}

// own makes mem, which is mapped, the memory of the scratch until free. A scratch that the
// collector finds, because its pool or a dead request has dropped it, frees it, too.
func (s *Scratch) own(mem []byte) {
	s.mem, s.mapped = mem, true
	s.cleanup = runtime.AddCleanup(s, unmapMemory, mem)
}

// free returns mapped memory to the system.
func (s *Scratch) free() {
	if s.mapped {
		s.cleanup.Stop()
		unmapMemory(s.mem)
	}
	s.mem, s.mapped = nil, false
}

// Bytes returns an empty slice to append to.
func (s *Scratch) Bytes() []byte { return s.mem[:0] }

// Small ends the use of p, which was made by appending to Bytes and has at most SmallScratch bytes,
// and releases the scratch.
func (s *Scratch) Small(p []byte) {
	if !s.mapped {
		s.mem = p[:cap(p)]
	}
	scratches.Put(s)
}

// Hold keeps p, which was made by appending to Bytes. It returns the same bytes, in memory of about
// their size until Release.
func (s *Scratch) Hold(p []byte) []byte {
	if s.held = true; !s.mapped || &p[0] != &s.mem[0] {
		return s.moved(p)
	}
	s.cleanup.Stop()
	s.own(shrinkMemory(s.mem, len(p)))
	return s.mem[:len(p):len(p)]
}

// moved returns the bytes of p, for which the scratch was too small, in memory of their size.
func (s *Scratch) moved(p []byte) []byte {
	s.free()
	mem, err := mapMemory(len(p))
	if err != nil {
		return p
	}
	s.own(mem)
	return append(s.mem[:0:len(p)], p...)
}

// Release returns the memory of Hold. No code may use the bytes afterwards.
func (s *Scratch) Release() {
	if !s.held && Invariants {
		panic("bufpool: a scratch that holds nothing was released")
	}
	s.held = false
	s.free()
}
