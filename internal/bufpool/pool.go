package bufpool

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// minClass is the smallest size class, as a power of two: a Produce request with one small
	// record has about 350 bytes.
	minClass = 9
	// maxClass is the largest size class, as a power of two: 16 MiB. Larger buffers are allocated
	// for one use and left to the garbage collector.
	maxClass = 24
	// classes counts 512, 768, 1024, 1536, …, 12 MiB, 16 MiB: two for each doubling, so that at
	// most a third of a buffer is unused.
	classes = 2*(maxClass-minClass) + 1
)

// Pool provides buffers in size classes. The zero value is ready for use. A Pool must not be
// copied; its methods are safe for concurrent use.
type Pool struct {
	class     [classes]sync.Pool
	scratches sync.Pool // of *Scratch
	out       atomic.Int64
}

// Get returns a buffer of n bytes with one reference, which the caller owns. Its content is
// undefined. n below zero counts as zero.
func (p *Pool) Get(n int) *Buffer {
	n = max(n, 0)
	p.out.Add(1)
	i, size := classOf(n)
	if i < 0 {
		return newBuffer(p, make([]byte, n), n, -1)
	}
	b, _ := p.class[i].Get().(*Buffer)
	if b == nil {
		return newBuffer(p, make([]byte, size), n, i)
	}
	if Invariants {
		// The handle from the pool stays dead, so that any further use of it is detected; only its
		// memory is reused.
		checkPoison(b.mem)
		return newBuffer(p, b.mem, n, i)
	}
	b.data = b.mem[:n]
	b.refs.Store(1)
	return b
}

// Outstanding returns the number of buffers, and of scratches that hold bytes, that were not
// released yet. A test that ends with a number other than zero has found a leak.
func (p *Pool) Outstanding() int64 { return p.out.Load() }

func (p *Pool) put(b *Buffer) {
	p.out.Add(-1)
	if Invariants {
		poison(b.mem)
	}
	if b.class >= 0 {
		p.class[b.class].Put(b)
	}
}

// classOf returns the index and size of the smallest class that holds n bytes, or -1 if n is larger
// than every class.
func classOf(n int) (index, size int) {
	if n <= 1<<minClass {
		return 0, 1 << minClass
	}
	if n > 1<<maxClass {
		return -1, n
	}
	pow := bits.Len(uint(n - 1)) // 1<<pow is the next power of two
	index, size = 2*(pow-minClass), 1<<pow
	if half := size - size/4; n <= half {
		return index - 1, half
	}
	return index, size
}
