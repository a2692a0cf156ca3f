package metadata

import "iter"

// chunkSize is the maximum number of partitions that are copied when one changes.
const chunkSize = 64

// Partitions is an immutable sequence of partitions, stored in chunks: changing one partition of
// 10,000 copies 64 of them and a small table. The last chunk has no unused room, because most
// topics have few partitions.
type Partitions struct {
	chunks [][]Partition
	n      int32
}

// Len returns the number of partitions.
func (ps Partitions) Len() int32 { return ps.n }

// At returns partition i, or nil if there is none, so that numbers from clients need no check.
func (ps Partitions) At(i int32) *Partition {
	if i < 0 || i >= ps.n {
		return nil
	}
	return &ps.chunks[i/chunkSize][i%chunkSize]
}

// All iterates over the partitions in order.
func (ps Partitions) All() iter.Seq2[int32, *Partition] {
	return func(yield func(int32, *Partition) bool) {
		for i := range ps.n {
			if !yield(i, ps.At(i)) {
				return
			}
		}
	}
}

// with returns a copy of length n, which must not be smaller than the current one, with some
// partitions replaced. It shares unchanged chunks. changes must include every new index.
func (ps Partitions) with(n int32, changes map[int32]*Partition) Partitions {
	next := Partitions{n: n, chunks: make([][]Partition, (n+chunkSize-1)/chunkSize)}
	copy(next.chunks, ps.chunks)
	own := make(map[int32]bool, min(len(changes), len(next.chunks)))
	for i, p := range changes {
		c := i / chunkSize
		if !own[c] {
			fresh := make([]Partition, min(n-c*chunkSize, chunkSize))
			copy(fresh, next.chunks[c])
			next.chunks[c], own[c] = fresh, true
		}
		next.chunks[c][i%chunkSize] = *p
	}
	return next
}
