package bufpool

import (
	"fmt"
	"sync/atomic"
)

// Buffer is a piece of pooled memory with a reference count. Get returns it with one reference; the
// last Release returns it to its Pool.
type Buffer struct {
	pool  *Pool
	mem   []byte // the whole size class
	data  []byte // the requested bytes
	class int
	refs  atomic.Int32
}

func newBuffer(p *Pool, mem []byte, n, class int) *Buffer {
	b := &Buffer{pool: p, mem: mem, data: mem[:n], class: class}
	b.refs.Store(1)
	return b
}

// Bytes returns the buffer's memory. It is valid until the caller's Release.
func (b *Buffer) Bytes() []byte {
	b.check("Bytes")
	return b.data
}

// Len returns the number of bytes that were requested.
func (b *Buffer) Len() int { return len(b.data) }

// Retain adds a reference, which the caller must release. The caller must hold a reference already.
func (b *Buffer) Retain() {
	b.check("Retain")
	b.refs.Add(1)
}

// Release releases one reference. The caller must not use the buffer or its bytes afterwards.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		b.pool.put(b)
	case n < 0 && Invariants:
		panic(fmt.Sprintf("bufpool: buffer of %d bytes released more often than retained", len(b.data)))
	}
}

func (b *Buffer) check(op string) {
	if Invariants && b.refs.Load() <= 0 {
		panic(fmt.Sprintf("bufpool: %s of a released buffer of %d bytes", op, len(b.data)))
	}
}

// poisonByte fills released memory: it is never valid as a batch's magic, length or CRC.
const poisonByte = 0xDB

func poison(p []byte) {
	for i := range p {
		p[i] = poisonByte
	}
}

func checkPoison(p []byte) {
	for i, c := range p {
		if c != poisonByte {
			panic(fmt.Sprintf("bufpool: byte %d of a buffer of %d bytes was written after its release", i, len(p)))
		}
	}
}
