package crashfs

import (
	"math/rand/v2"
	"time"

	"github.com/chronik-io/chronik/internal/vfs/ram"
)

// sectorSize is the unit of a disk's writes, in bytes.
const sectorSize = 512

type changeKind uint8

const (
	wrote     changeKind = iota // data at off
	truncated                   // to size
	extended                    // to size, if it was shorter
)

// change is one change of a file that no Datasync has covered. It is immutable, so images share it.
type change struct {
	kind changeKind
	seq  int64 // counts the changes of the file
	off  int64
	data []byte
	size int64
}

// sized returns the size of the file after the change, given its size before.
func (c change) sized(size int64) int64 {
	switch c.kind {
	case wrote:
		if len(c.data) == 0 { // truncated by the crash
			return size
		}
		return max(size, c.off+int64(len(c.data)))
	case extended:
		return max(size, c.size)
	default:
		return c.size
	}
}

func (c change) apply(b *ram.Bytes) {
	if c.kind == wrote {
		b.WriteAt(c.data, c.off)
	} else {
		b.Resize(c.sized(b.Size()))
	}
}

// sectors returns the first sector of a write and the one after its last.
func (c change) sectors() (first, end int64) {
	if c.kind != wrote {
		return 0, 0
	}
	return c.off / sectorSize, (c.off + int64(len(c.data)) + sectorSize - 1) / sectorSize
}

// inode is a file without its name.
//
//	base ──log──▶ cache     seen by reads
//	  │
//	durable                 on disk
//
// base is the cache before the first change in the log. It equals the content of the disk, and is
// then nil, unless a failed sync marked dirty pages as clean: those are in base and not on disk,
// and no later sync writes them.
type inode struct {
	cache, durable, base *ram.Bytes
	log                  []change
	seq                  int64     // of the newest change
	modified             time.Time // time of the newest change; survives everything
}

func newInode() *inode {
	return &inode{cache: new(ram.Bytes), durable: new(ram.Bytes), modified: time.Now()}
}

func (n *inode) change(c change) {
	n.seq++
	c.seq = n.seq
	c.apply(n.cache)
	n.log = append(n.log, c)
	n.modified = time.Now()
}

// sync makes the changes up to seq durable.
func (n *inode) sync(seq int64) {
	k := 0
	for k < len(n.log) && n.log[k].seq <= seq {
		k++
	}
	if k == 0 {
		return
	}
	if n.base == nil && k == len(n.log) {
		n.syncAll()
		return
	}
	disk, cache := survivors(n.durable, n.start(), n.log[:k], k, always)
	if n.base != nil {
		n.base = cache
	}
	n.durable, n.log = disk, append([]change(nil), n.log[k:]...)
}

// start returns the cache before the first change in the log.
func (n *inode) start() *ram.Bytes {
	if n.base != nil {
		return n.base
	}
	return n.durable
}

// syncAll is sync if cache and disk differ only by the log.
func (n *inode) syncAll() {
	for _, c := range n.log {
		if c.kind == truncated {
			n.durable, n.log = n.cache.Clone(), nil
			return
		}
	}
	for _, c := range n.log {
		n.durable.Share(n.cache, c.off, int64(len(c.data)))
	}
	n.durable.Resize(n.cache.Size())
	n.log = nil
}

// unsynced returns the first offset at which the disk may differ from the cache; the file's size if
// there is none.
func (n *inode) unsynced() int64 {
	first, size := n.cache.Size(), n.start().Size()
	if n.base != nil {
		first = min(first, difference(n.base, n.durable))
	}
	for _, c := range n.log {
		at := c.off
		if c.kind != wrote {
			at = min(size, c.size)
		}
		first, size = min(first, at), c.sized(size)
	}
	return first
}

// difference returns the first offset at which a and b differ, at most the size of the smaller one.
func difference(a, b *ram.Bytes) int64 {
	var p, q [4096]byte
	for off := int64(0); ; {
		n := min(a.ReadAt(p[:], off), b.ReadAt(q[:], off))
		for i := range n {
			if p[i] != q[i] {
				return off + int64(i)
			}
		}
		if n == 0 {
			return off
		}
		off += int64(n)
	}
}

// forget simulates the effect of a failed sync on the pages that it could not write: they count as
// clean. keepCached leaves them readable until a power loss; otherwise reads see the content of the
// disk.
func (n *inode) forget(keepCached bool) {
	if keepCached && len(n.log) == 0 {
		return // no page is dirty
	}
	n.log = nil
	if keepCached {
		n.base = n.cache.Clone()
	} else {
		n.cache, n.base = n.durable.Clone(), nil
	}
}

// clone returns the inode after the process was killed.
func (n *inode) clone() *inode {
	c := &inode{cache: n.cache.Clone(), durable: n.durable.Clone(), log: append([]change(nil), n.log...), seq: n.seq, modified: n.modified}
	if n.base != nil {
		c.base = n.base.Clone()
	}
	return c
}

// afterPowerLoss returns the inode after a power loss.
func (n *inode) afterPowerLoss(m Mode, rng *rand.Rand) *inode {
	log, sizes, keep := n.log, len(n.log), always
	switch m {
	case DropUnsynced:
		log, sizes = nil, 0
	case KeepPrefix:
		log = prefix(log, rng)
		sizes = len(log)
	case KeepSectors, GarbleWrites, GarbleSectors:
		likely := someLikelihood(rng)
		keep = func() bool { return rng.Float64() < likely }
		if rng.IntN(2) == 0 {
			sizes = rng.IntN(len(log) + 1)
		}
	case KeepAll:
	}
	disk, _ := survivors(n.durable, n.start(), log, sizes, keep)
	if m == GarbleWrites || m == GarbleSectors {
		garble(disk, log, m == GarbleSectors, rng)
	}
	return &inode{cache: disk.Clone(), durable: disk, modified: n.modified}
}

func always() bool { return true }

// someLikelihood returns a likelihood of survival, including both extremes: one file may keep
// everything and another nothing.
func someLikelihood(rng *rand.Rand) float64 { return float64(rng.IntN(5)) / 4 }

// garble puts random bytes into some of the sectors that the writes in log touched: into whole
// sectors, or only where the writes were.
func garble(disk *ram.Bytes, log []change, whole bool, rng *rand.Rand) {
	likely := []float64{0, 0.05, 0.25, 1}[rng.IntN(4)]
	for _, c := range log {
		for s, end := c.sectors(); s < end; s++ {
			if rng.Float64() >= likely {
				continue
			}
			from, to := s*sectorSize, (s+1)*sectorSize
			if !whole {
				from, to = max(from, c.off), min(to, c.off+int64(len(c.data)))
			}
			junk := make([]byte, max(0, min(to, disk.Size())-from))
			for i := range junk {
				junk[i] = byte(rng.Uint32())
			}
			disk.WriteAt(junk, from)
		}
	}
}

// prefix returns the first changes of log, the last of them truncated at a sector.
func prefix(log []change, rng *rand.Rand) []change {
	k := rng.IntN(len(log) + 1)
	if k == len(log) {
		return log
	}
	c := log[k]
	first, end := c.sectors()
	if first == end {
		return log[:k]
	}
	kept := rng.Int64N(end - first)
	c.data = c.data[:max(0, (first+kept)*sectorSize-c.off)]
	return append(log[:k:k], c)
}

// survivors returns the content of a disk that had durable before the changes of log were applied
// to the cache base. For every sector of every write, in order, keep decides whether its cached
// content at that time reached the disk. Of the changes of size, the first sizes survive; sectors
// beyond that size are lost. It also returns the cache after the changes.
func survivors(durable, base *ram.Bytes, log []change, sizes int, keep func() bool) (disk, cache *ram.Bytes) {
	disk, cache = durable.Clone(), base.Clone()
	size := disk.Size()
	for i, c := range log {
		c.apply(cache)
		if i < sizes {
			size = c.sized(size)
			if c.kind == truncated {
				disk.Resize(min(disk.Size(), size))
			}
		}
		for s, end := c.sectors(); s < end; s++ {
			if keep() {
				copySector(disk, cache, s)
			}
		}
	}
	disk.Resize(size)
	return disk, cache
}

// copySector writes one sector of the cache, with zeros after the end of the file.
func copySector(disk, cache *ram.Bytes, sector int64) {
	var buf [sectorSize]byte
	off := sector * sectorSize
	n := int64(cache.ReadAt(buf[:], off))
	disk.WriteAt(buf[:max(n, min(sectorSize, disk.Size()-off))], off)
}
