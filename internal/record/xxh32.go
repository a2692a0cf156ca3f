package record

import (
	"encoding/binary"
	"math/bits"
)

// xxh32 is XXH32 with seed 0, the checksum inside lz4 frames. Call reset before the first use.
type xxh32 struct {
	acc   [4]uint32
	tail  [16]byte // input that does not fill a stripe yet
	total uint64
}

const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

func (h *xxh32) reset() {
	var seed uint32 // a variable, so that the sums wrap as intended
	h.acc = [4]uint32{seed + xxPrime1 + xxPrime2, seed + xxPrime2, seed, seed - xxPrime1}
	h.total = 0
}

func (h *xxh32) write(p []byte) {
	have := int(h.total % 16)
	h.total += uint64(len(p))
	if have > 0 {
		n := copy(h.tail[have:], p)
		p = p[n:]
		if have+n < 16 {
			return
		}
		h.stripe(h.tail[:])
	}
	for ; len(p) >= 16; p = p[16:] {
		h.stripe(p)
	}
	copy(h.tail[:], p)
}

func (h *xxh32) stripe(p []byte) {
	for i := range h.acc {
		h.acc[i] = bits.RotateLeft32(h.acc[i]+binary.LittleEndian.Uint32(p[4*i:])*xxPrime2, 13) * xxPrime1
	}
}

func (h *xxh32) sum() uint32 {
	sum := uint32(h.total)
	if h.total >= 16 {
		sum += bits.RotateLeft32(h.acc[0], 1) + bits.RotateLeft32(h.acc[1], 7) +
			bits.RotateLeft32(h.acc[2], 12) + bits.RotateLeft32(h.acc[3], 18)
	} else {
		sum += xxPrime5
	}
	p := h.tail[:h.total%16]
	for ; len(p) >= 4; p = p[4:] {
		sum = bits.RotateLeft32(sum+binary.LittleEndian.Uint32(p)*xxPrime3, 17) * xxPrime4
	}
	for _, b := range p {
		sum = bits.RotateLeft32(sum+uint32(b)*xxPrime5, 11) * xxPrime1
	}
	sum = (sum ^ sum>>15) * xxPrime2
	sum = (sum ^ sum>>13) * xxPrime3
	return sum ^ sum>>16
}

// xxh32Sum returns the checksum of p.
func xxh32Sum(p []byte) uint32 {
	var h xxh32
	h.reset()
	h.write(p)
	return h.sum()
}
