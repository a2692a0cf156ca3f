package cleaner

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

const (
	// EntryBytes is the size of a slot of a KeyMap: 16 bytes of hash, 8 of offset.
	EntryBytes = 24

	shards    = 64
	firstSize = 8 // slots of a shard's initial table

	// MinMapBytes is the smallest budget that gives each shard a table.
	MinMapBytes = shards * firstSize * EntryBytes
)

// KeyMap maps keys to the last offset of each. It identifies a key by 128 bits of its SHA-256. If
// two keys had the same bits, compaction would remove one of them; such keys neither occur by
// chance nor can be constructed. The map grows with its keys up to a budget in bytes. Only one
// goroutine may use it.
//
// It consists of tables with open addressing that are at most three quarters full. Since one table
// grows at a time, growing needs the memory of one of them twice, not of all.
type KeyMap struct {
	budget int64 // bytes that may still be allocated
	n      int
	tables [shards]table
}

type table struct {
	slots []slot
	n     int
}

// slot is empty if at is 0; otherwise at is the offset plus 1.
type slot struct{ lo, hi, at uint64 }

// NewKeyMap returns a map of at most budget bytes, but at least MinMapBytes.
func NewKeyMap(budget int64) *KeyMap { return &KeyMap{budget: max(budget, MinMapBytes)} }

func hash(key []byte) (lo, hi uint64) {
	h := sha256.Sum256(key)
	return binary.LittleEndian.Uint64(h[:]), binary.LittleEndian.Uint64(h[8:])
}

// Len returns the number of keys.
func (m *KeyMap) Len() int { return m.n }

// Put sets the last offset of a key. The offset is at least 0 and above all previous ones. If the
// key is new and there is no space for it, Put returns false and changes nothing.
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

// find returns the slot of a hash, or the empty slot for it.
func (t *table) find(lo, hi uint64) *slot {
	n := uint64(len(t.slots))
	at, _ := bits.Mul64(lo, n) // the upper bits of lo, scaled to the number of slots
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

// grow enlarges a table by half if the budget allows both tables, and near the end of the budget by
// the rest.
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

// Bytes returns the size of the map.
func (m *KeyMap) Bytes() (n int64) {
	for i := range m.tables {
		n += int64(len(m.tables[i].slots)) * EntryBytes
	}
	return n
}
