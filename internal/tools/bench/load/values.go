package load

import "math/rand/v2"

// poolSize is the size of the text that values are cut from: more than a batch holds, so that no
// compression finds the same text twice in a batch.
const poolSize = 2 << 20

// values creates the values of a worker: random text of 64 letters, which compresses to about three
// quarters. Each value is the next part of a pool. Workers share the pool, which is only read.
type values struct {
	pool []byte
	at   int
	size int
}

func newValues(seed uint64, size int) *values {
	return &values{pool: text(seed, max(poolSize, 2*size)), size: size}
}

// startingAt returns values of the same pool for worker i, starting at another position.
func (v *values) startingAt(i int) *values {
	return &values{pool: v.pool, size: v.size, at: i * 7919 % max(len(v.pool)-v.size, 1)}
}

// text returns size random letters.
func text(seed uint64, size int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	pool := make([]byte, size)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < len(pool); {
		for bits, n := rng.Uint64(), 0; n < 10 && i < len(pool); n++ {
			pool[i] = letters[bits&63]
			bits >>= 6
			i++
		}
	}
	return pool
}

// next returns the next value; the caller must not write to it.
func (v *values) next() []byte {
	if v.at+v.size > len(v.pool) {
		v.at = 0
	}
	b := v.pool[v.at : v.at+v.size]
	v.at += v.size
	return b
}
