package cleaner

import (
	"encoding/binary"
	"math/bits"
)

// hash is the 128-bit SipHash-2-4 of p (Aumasson and Bernstein): without the key
// nobody can make two record keys that collide, and by accident none do.
func hash(key [16]byte, p []byte) (lo, hi uint64) {
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	s := sip{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(p)) << 56
	for ; len(p) >= 8; p = p[8:] {
		s.word(binary.LittleEndian.Uint64(p))
	}
	for i, b := range p {
		last |= uint64(b) << (8 * i)
	}
	s.word(last)
	s.v2 ^= 0xee
	s.rounds(4)
	lo = s.v0 ^ s.v1 ^ s.v2 ^ s.v3
	s.v1 ^= 0xdd
	s.rounds(4)
	return lo, s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

type sip struct{ v0, v1, v2, v3 uint64 }

func (s *sip) word(m uint64) {
	s.v3 ^= m
	s.rounds(2)
	s.v0 ^= m
}

func (s *sip) rounds(n int) {
	for range n {
		s.v0 += s.v1
		s.v2 += s.v3
		s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
		s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
		s.v0 = bits.RotateLeft64(s.v0, 32)
		s.v2 += s.v1
		s.v0 += s.v3
		s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
		s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
		s.v2 = bits.RotateLeft64(s.v2, 32)
	}
}
