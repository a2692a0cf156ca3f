package metadata

import (
	"encoding/binary"
	"slices"
)

// Placement has the log directories of a broker's replicas of one topic. It is immutable; the zero
// value places no partition.
//
// Its value, that of PlacementKey:
//
//	version u8 | number of directories | their ids, 16 bytes each |
//	number of partitions | for each from 0 on: 0 for none, or 1 + the index of its directory
//
// Numbers are unsigned varints of 32 bits, so a partition has one byte.
type Placement struct {
	dirs [][16]byte // sorted by first use
	at   []int32    // by partition: 0 for none, otherwise 1 + the index in dirs
	rev  int64
}

// Dir returns the log directory of a partition's replica, false if none is recorded.
func (p *Placement) Dir(partition int32) ([16]byte, bool) {
	if p == nil || partition < 0 || int(partition) >= len(p.at) || p.at[partition] == 0 {
		return [16]byte{}, false
	}
	return p.dirs[p.at[partition]-1], true
}

// count is the number of the last placed partition, plus one.
func (p *Placement) count() int {
	if p == nil {
		return 0
	}
	return len(p.at)
}

// With returns a copy with the given partitions placed in other directories; a zero id removes the
// partition. Partitions must not be negative.
func (p *Placement) With(changes map[int32][16]byte) Placement {
	count := len(p.at)
	for partition, dir := range changes {
		if dir != [16]byte{} {
			count = max(count, int(partition)+1)
		}
	}
	next := Placement{at: make([]int32, count)}
	for i := range int32(count) {
		dir, ok := p.Dir(i)
		if changed, is := changes[i]; is {
			dir, ok = changed, changed != [16]byte{}
		}
		if ok {
			next.at[i] = next.index(dir) + 1
		}
	}
	for count > 0 && next.at[count-1] == 0 {
		count--
	}
	next.at = next.at[:count]
	return next
}

// index returns the index of a directory, which it adds if necessary.
func (p *Placement) index(dir [16]byte) int32 {
	i := slices.Index(p.dirs, dir)
	if i < 0 {
		i, p.dirs = len(p.dirs), append(p.dirs, dir)
	}
	return int32(i)
}

// IsEmpty reports whether no partition is placed.
func (p *Placement) IsEmpty() bool { return len(p.at) == 0 }

// Encode returns the value of PlacementKey.
func (p Placement) Encode() []byte {
	b := make([]byte, 0, 8+16*len(p.dirs)+len(p.at))
	b = append(b, valueVersion)
	b = binary.AppendUvarint(b, uint64(len(p.dirs)))
	for _, d := range p.dirs {
		b = append(b, d[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(p.at)))
	for _, i := range p.at {
		b = binary.AppendUvarint(b, uint64(uint32(i)))
	}
	return b
}

// DecodePlacement is the inverse of Placement.Encode. For a missing key it returns an empty
// placement.
func DecodePlacement(kv KV) (Placement, error) {
	if kv.ModRevision == 0 {
		return Placement{}, nil
	}
	r, err := newBinaryReader(kv)
	if err != nil {
		return Placement{}, err
	}
	p := Placement{rev: kv.ModRevision}
	for range r.Count(16) {
		id := r.ID()
		if id == [16]byte{} || slices.Contains(p.dirs, id) {
			return Placement{}, invalid(kv, "a directory has no id or the id of another one")
		}
		p.dirs = append(p.dirs, id)
	}
	p.at = r.int32s()
	if err := r.done(); err != nil {
		return Placement{}, err
	}
	for _, i := range p.at {
		if int(i) > len(p.dirs) {
			return Placement{}, invalid(kv, "a partition is in a directory that is not listed")
		}
	}
	return p, nil
}
