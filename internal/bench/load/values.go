package load

import "math/rand/v2"

// poolSize is what values are cut from: more than a batch holds, so that no
// compression finds the same text twice in one.
const poolSize = 2 << 20

// values makes the values of a worker: text of 64 letters at random, which
// compresses to about three quarters, as a stretch of a pool that moves on with
// every record. Workers share a pool, which is only read.
type values struct {
	pool []byte
	at   int
	size int
}

func newValues(seed uint64, size int) *values {
	return &values{pool: text(seed, max(poolSize, 2*size)), size: size}
}

// startingAt is the same pool for worker i, begun at another place.
func (v *values) startingAt(i int) *values {
	return &values{pool: v.pool, size: v.size, at: i * 7919 % max(len(v.pool)-v.size, 1)}
}

// text is size letters at random.
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

// next is the next value; it must not be written to.
func (v *values) next() []byte {
	if v.at+v.size > len(v.pool) {
		v.at = 0
	}
	b := v.pool[v.at : v.at+v.size]
	v.at += v.size
	return b
}
