package crashfs

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/chronik-io/chronik/internal/vfs/ram"
)

// Mode determines what survives a power loss in addition to the synced bytes.
type Mode uint8

const (
	// DropUnsynced keeps nothing.
	DropUnsynced Mode = iota
	// KeepSectors keeps for every file any subset of the written 512-byte sectors, in any version
	// since the last sync, and any size since then; and any subset of the changes of names. The
	// page cache is written back in no particular order.
	KeepSectors
	// KeepPrefix keeps for every file the first writes since the last sync, the last of them
	// truncated at a sector; and the first changes of names.
	KeepPrefix
	// KeepAll keeps everything, except pages that a failed sync dropped.
	KeepAll
	// GarbleWrites is KeepSectors; in addition, in any sector written since the last sync, the
	// written bytes may be random, because the disk was writing them when the power failed. This
	// includes bytes that had the same synced content before, so a file must not rewrite
	// acknowledged bytes in place. Files that are replaced by a rename never do. An index may,
	// because it is a cache, and a journal begins each write at a new block.
	GarbleWrites
	// GarbleSectors is GarbleWrites on a disk that ruins whole sectors: bytes that no write covered
	// may be random too if they share a sector with written bytes. A file that appends where its
	// synced bytes end does not survive this, because the sector in which they end is at risk. Such
	// a file must rely on the disk (SQLite calls the property "powersafe overwrite"), or begin each
	// append at a new sector, as the journal does.
	GarbleSectors
)

// Modes returns the modes that every file must withstand, for tests that iterate over them: all
// except GarbleSectors.
func Modes() []Mode { return []Mode{DropUnsynced, KeepSectors, KeepPrefix, KeepAll, GarbleWrites} }

// String returns the name of the mode.
func (m Mode) String() string {
	if names := []string{"DropUnsynced", "KeepSectors", "KeepPrefix", "KeepAll", "GarbleWrites", "GarbleSectors"}; int(m) < len(names) {
		return names[m]
	}
	return "Mode(?)"
}

// Kill ends the process and returns the file system as the next one finds it: with everything
// written, nothing more durable than before, and no lock held.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
	return f.killed(f.rng.Uint64())
}

// PowerLoss cuts the power and returns the file system as the machine finds it afterwards.
// Everything in it is durable.
func (f *FS) PowerLoss(m Mode) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
	return f.unplugged(m, f.rng.Uint64())
}

// KillImage returns what Kill would return now, without ending the process; the process may have
// crashed. The random choices of the image are determined by seed.
func (f *FS) KillImage(seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.killed(seed)
}

// PowerLossImage returns what PowerLoss would return now, without ending the process; the process
// may have crashed. One run of a workload thus gives many images. seed determines what survives.
func (f *FS) PowerLossImage(m Mode, seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unplugged(m, seed)
}

func (f *FS) killed(seed uint64) *FS {
	next := New(seed)
	next.latency = f.latency
	copies := map[*node]*node{f.root: next.root}
	copied := func(n *node) *node { return copyOf(n, copies) }
	for name, n := range f.root.Entries {
		next.root.Entries[name] = copied(n)
	}
	moved := func(s slot) slot {
		if s.Dir != nil {
			s.Dir = copied(s.Dir)
		}
		return s
	}
	for dir, entries := range f.durable.dirs {
		for name, n := range entries {
			next.durable.apply(nameChange{node: copied(n), to: slot{Dir: copied(dir), Name: name}})
		}
	}
	for _, c := range f.pending {
		next.pending = append(next.pending, nameChange{node: copied(c.node), from: moved(c.from), to: moved(c.to)})
	}
	return next
}

// copyOf returns the copy of n and everything below it, one for each node.
func copyOf(n *node, copies map[*node]*node) *node {
	if c := copies[n]; c != nil {
		return c
	}
	if !n.IsDir() {
		c := ram.NewFile(n.Data.clone())
		copies[n] = c
		return c
	}
	c := ram.NewDir[*inode](nil)
	copies[n] = c
	for name, below := range n.Entries {
		c.Entries[name] = copyOf(below, copies)
	}
	return c
}

func (f *FS) unplugged(m Mode, seed uint64) *FS {
	next := New(seed)
	next.latency = f.latency
	disk := f.durable.clone()
	for _, c := range survivingNames(f.pending, m, next.rng) {
		disk.apply(c)
	}
	next.grow(next.root, disk, f.root, m)
	return next
}

// survivingNames returns the changes of names that reach the disk.
func survivingNames(pending []nameChange, m Mode, rng *rand.Rand) []nameChange {
	switch m {
	case DropUnsynced:
		return nil
	case KeepPrefix:
		return pending[:rng.IntN(len(pending)+1)]
	case KeepSectors, GarbleWrites, GarbleSectors:
		likely := someLikelihood(rng)
		var kept []nameChange
		for _, c := range pending {
			if rng.Float64() < likely {
				kept = append(kept, c)
			}
		}
		return kept
	default:
		return pending
	}
}

// grow fills dir with the entries that disk has for old, in the order of names, so that a seed
// determines the image. Nodes without a surviving name are lost.
func (f *FS) grow(dir *node, disk names, old *node, m Mode) {
	for _, name := range slices.Sorted(maps.Keys(disk.dirs[old])) {
		was := disk.dirs[old][name]
		var n *node
		if was.IsDir() {
			n = ram.NewDir[*inode](nil)
			f.grow(n, disk, was, m)
		} else {
			n = ram.NewFile(was.Data.afterPowerLoss(m, f.rng))
		}
		dir.Entries[name] = n
		f.durable.apply(nameChange{node: n, to: slot{Dir: dir, Name: name}})
	}
}
