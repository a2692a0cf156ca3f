package bufpool

import "runtime"

// Scratch is memory to encode into before the size is known. What turns out to be large stays in
// it, without a copy.
//
// Encoding appends, and what is appended to a slice of the heap grows: a large answer would
// allocate five times its size, and be copied to its place. The collector would then let the heap
// grow by as much again. So the memory is mapped apart from the heap: the system adds pages to a
// range of addresses as they are written, and takes them back at the release. Where no range can be
// mapped, the memory is on the heap.
type Scratch struct {
	pool    *Pool
	mem     []byte // all of it
	mapped  bool   // mem is mapped, not on the heap
	held    bool   // Hold was called
	cleanup runtime.Cleanup
}

const (
	// scratchSpace is the range of addresses of a scratch, in bytes. Only written pages are memory.
	scratchSpace = 64 << 20
	// SmallScratch is how many bytes may have been written, at most, for another use of the
	// memory. More of them are returned to the system.
	SmallScratch = 64 << 10
)

// Scratch returns memory that the caller owns. What was written into it must be passed to Release.
func (p *Pool) Scratch() *Scratch {
	if s, _ := p.scratches.Get().(*Scratch); s != nil {
		return s
	}
	s := &Scratch{pool: p}
	if mem, err := mapMemory(scratchSpace); err == nil {
		s.own(mem)
	}
	return s
}

// own makes mem, which is mapped, the memory of the scratch until free, or until the collector
// finds that its pool has dropped it.
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

// Hold returns the bytes of p, which was made by appending to Bytes and is not empty, in memory of
// their size. They are valid until Release.
func (s *Scratch) Hold(p []byte) []byte {
	s.held = true
	s.pool.out.Add(1)
	if s.mapped && &p[0] == &s.mem[0] {
		s.cleanup.Stop()
		s.own(shrinkMemory(s.mem, len(p)))
		return s.mem[:len(p):len(p)]
	}
	s.free() // p did not fit, and is on the heap
	mem, err := mapMemory(len(p))
	if err != nil {
		return p
	}
	s.own(mem)
	return append(s.mem[:0:len(p)], p...)
}

// Release ends the use of p, which is the result of Hold or was made by appending to Bytes. No code
// may use it afterwards.
func (s *Scratch) Release(p []byte) {
	switch {
	case s.held:
		s.held = false
		s.pool.out.Add(-1)
		s.free()
	case len(p) > SmallScratch:
		s.free()
	default:
		if !s.mapped {
			s.mem = p[:cap(p)]
		}
		s.pool.scratches.Put(s)
	}
}
