package cleaner

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

const (
	// EntryBytes is what a slot of a KeyMap takes: 16 bytes of hash, 8 of offset.
	EntryBytes = 24

	shards    = 64
	firstSize = 8 // slots of a shard's first table

	// MinMapBytes is the smallest budget with which a map holds a key of each shard.
	MinMapBytes = shards * firstSize * EntryBytes
)

// KeyMap maps keys to the last offset that each was seen at. It knows keys by 128
// bits of their SHA-256: two keys with the same bits, of which a compaction would remove one, can
// be neither met by accident nor made. It grows with what it holds up to a bound of bytes. One
// goroutine uses it.
//
// It is made of tables with open addressing, at most three quarters full, so that
// growing needs the memory of one of them twice, and not of all.
type KeyMap struct {
	budget int64 // bytes that may still be taken
	n      int
	tables [shards]table
}

type table struct {
	slots []slot
	n     int
}

// slot is empty where at is 0; otherwise at is the offset + 1.
type slot struct{ lo, hi, at uint64 }

// NewKeyMap returns a map of at most budget bytes, MinMapBytes at least.
func NewKeyMap(budget int64) *KeyMap { return &KeyMap{budget: max(budget, MinMapBytes)} }

func hash(key []byte) (lo, hi uint64) {
	h := sha256.Sum256(key)
	return binary.LittleEndian.Uint64(h[:]), binary.LittleEndian.Uint64(h[8:])
}

// Len returns how many keys the map holds.
func (m *KeyMap) Len() int { return m.n }

// Put notes that a key was seen at an offset, 0 or more and above those before. It
// returns false, having noted nothing, where the key is a new one and there is no
// room for it.
func (m *KeyMap) Put(key []byte, offset int64) bool {
	lo, hi := hash(key)
	t := &m.tables[hi>>58]
	if len(t.slots) == 0 && !m.grow(t) {
		return false
	}
	s := t.find(lo, hi)
	if s.at == 0 && t.n >= len(t.slots)/4*3 {
		if !m.grow(t) {
			return false
		}
		s = t.find(lo, hi)
	}
	if s.at == 0 {
		s.lo, s.hi = lo, hi
		t.n++
		m.n++
	}
	s.at = uint64(offset) + 1
	return true
}

// Get returns the last offset of a key.
func (m *KeyMap) Get(key []byte) (offset int64, ok bool) {
	lo, hi := hash(key)
	t := &m.tables[hi>>58]
	if len(t.slots) == 0 {
		return 0, false
	}
	s := t.find(lo, hi)
	return int64(s.at) - 1, s.at != 0
}

// find returns the slot of a hash, or the empty one where it belongs.
func (t *table) find(lo, hi uint64) *slot {
	n := uint64(len(t.slots))
	at, _ := bits.Mul64(lo, n) // lo's upper bits, spread over the slots
	for {
		s := &t.slots[at]
		if s.at == 0 || s.lo == lo && s.hi == hi {
			return s
		}
		if at++; at == n {
			at = 0
		}
	}
}

// grow makes a table larger by half, if the budget allows it beside the old one;
// towards its end by what there is.
func (m *KeyMap) grow(t *table) bool {
	old := t.slots
	size := max(firstSize, len(old)/2*3)
	if most := m.budget / EntryBytes; int64(size) > most {
		size = int(most / 4 * 4)
	}
	if size/4*3 <= len(old)/4*3 {
		return false
	}
	t.slots = make([]slot, size)
	m.budget -= int64(size-len(old)) * EntryBytes
	for _, s := range old {
		if s.at != 0 {
			*t.find(s.lo, s.hi) = s
		}
	}
	return true
}

// Bytes returns how much memory the map takes.
func (m *KeyMap) Bytes() (n int64) {
	for i := range m.tables {
		n += int64(len(m.tables[i].slots)) * EntryBytes
	}
	return n
}
