package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"unsafe"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Kafka's index formats, big endian:
//
//	.index      relative offset i32 (last offset of a batch - base), position i32 of that batch
//	.timeindex  timestamp i64 (the largest so far), relative offset i32 (last offset of its batch)
const (
	offsetEntryLen = 8
	timeEntryLen   = 12
)

type offsetEntry struct {
	rel int32
	pos int32
}

type timeEntry struct {
	ts  int64
	rel int32
}

// index holds both indexes of a segment in memory, and how many of their entries are in the files.
type index struct {
	offsets []offsetEntry
	times   []timeEntry
	// savedOffsets and savedTimes count the entries in the files; -1: the files must be rewritten.
	savedOffsets, savedTimes int
}

// bytes returns the memory that the index uses.
func (x *index) bytes() int64 {
	return int64(unsafe.Sizeof(*x) + uintptr(cap(x.offsets))*unsafe.Sizeof(offsetEntry{}) +
		uintptr(cap(x.times))*unsafe.Sizeof(timeEntry{}))
}

// clone returns a copy with its own arrays.
func (x *index) clone() index {
	c := *x
	c.offsets, c.times = slices.Clone(x.offsets), slices.Clone(x.times)
	return c
}

// floor returns the last entry at or before an offset.
func (x *index) floor(rel int32) (offsetEntry, bool) {
	i := sort.Search(len(x.offsets), func(i int) bool { return x.offsets[i].rel > rel })
	if i == 0 {
		return offsetEntry{}, false
	}
	return x.offsets[i-1], true
}

// floorTime returns the last entry whose timestamp is below ts: everything up to its offset is
// older than ts.
func (x *index) floorTime(ts int64) (timeEntry, bool) {
	i := sort.Search(len(x.times), func(i int) bool { return x.times[i].ts >= ts })
	if i == 0 {
		return timeEntry{}, false
	}
	return x.times[i-1], true
}

func (x *index) add(o offsetEntry) { x.offsets = append(x.offsets, o) }

func (x *index) addTime(t timeEntry) {
	if n := len(x.times); n > 0 && (x.times[n-1].ts >= t.ts || x.times[n-1].rel >= t.rel) {
		return
	}
	x.times = append(x.times, t)
}

// truncate removes the entries that point at or beyond a position. Concurrent readers of the arrays
// are not affected: later entries go to new arrays.
func (x *index) truncate(pos int64, nextRel int32) {
	n := sort.Search(len(x.offsets), func(i int) bool { return int64(x.offsets[i].pos) >= pos })
	x.offsets = x.offsets[:n:n]
	t := sort.Search(len(x.times), func(i int) bool { return x.times[i].rel >= nextRel })
	x.times = x.times[:t:t]
	if x.savedOffsets > n || x.savedTimes > t {
		x.savedOffsets, x.savedTimes = -1, -1 // the files hold too much: rewrite them
	}
}

// loadIndex reads the index files up to the first entry that cannot belong to a log file of this
// size. A missing or damaged index is merely sparser.
func loadIndex(fsys vfs.FS, base string, size int64) (*index, error) {
	x := &index{}
	// A batch has at least a header, which bounds the number of entries.
	most := size/record.HeaderSize + 1
	b, err := readAll(fsys, base+OffsetsSuffix, most*offsetEntryLen)
	if err != nil {
		return nil, err
	}
	last := offsetEntry{rel: -1, pos: -1}
	for ; len(b) >= offsetEntryLen; b = b[offsetEntryLen:] {
		e := offsetEntry{rel: int32(binary.BigEndian.Uint32(b)), pos: int32(binary.BigEndian.Uint32(b[4:]))}
		if e.rel <= last.rel || e.pos <= last.pos || int64(e.pos) >= size {
			break
		}
		x.offsets = append(x.offsets, e)
		last = e
	}
	rest := len(b) > 0
	if b, err = readAll(fsys, base+TimesSuffix, most*timeEntryLen); err != nil {
		return nil, err
	}
	for ; len(b) >= timeEntryLen; b = b[timeEntryLen:] {
		e := timeEntry{ts: int64(binary.BigEndian.Uint64(b)), rel: int32(binary.BigEndian.Uint32(b[8:]))}
		if n := len(x.times); n > 0 && (e.ts <= x.times[n-1].ts || e.rel <= x.times[n-1].rel) || e.rel < 0 {
			break
		}
		x.times = append(x.times, e)
	}
	x.savedOffsets, x.savedTimes = len(x.offsets), len(x.times)
	if rest || len(b) > 0 {
		x.savedOffsets, x.savedTimes = -1, -1
	}
	return x, nil
}

// readAll reads the first limit bytes of a file; a missing file is empty.
func readAll(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b[:min(int64(len(b)), limit)], err
}

// saved reports whether the files hold all entries.
func (x *index) saved() bool {
	return x.savedOffsets == len(x.offsets) && x.savedTimes == len(x.times)
}

// save updates the index files.
func (x *index) save(fsys vfs.FS, base string) error {
	o, t := max(x.savedOffsets, 0), max(x.savedTimes, 0)
	anew := x.savedOffsets < 0
	b := make([]byte, 0, (len(x.offsets)-o)*offsetEntryLen)
	for _, e := range x.offsets[o:] {
		b = binary.BigEndian.AppendUint32(b, uint32(e.rel))
		b = binary.BigEndian.AppendUint32(b, uint32(e.pos))
	}
	if err := writeTail(fsys, base+OffsetsSuffix, int64(o*offsetEntryLen), b, anew); err != nil {
		return err
	}
	b = b[:0]
	for _, e := range x.times[t:] {
		b = binary.BigEndian.AppendUint64(b, uint64(e.ts))
		b = binary.BigEndian.AppendUint32(b, uint32(e.rel))
	}
	if err := writeTail(fsys, base+TimesSuffix, int64(t*timeEntryLen), b, anew); err != nil {
		return err
	}
	x.savedOffsets, x.savedTimes = len(x.offsets), len(x.times)
	return nil
}

// writeTail writes b at an offset of a file that may not exist yet.
func writeTail(fsys vfs.FS, name string, off int64, b []byte, anew bool) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	defer func() { _ = f.Close() }()
	if anew {
		if err := f.Truncate(off); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	if _, err := f.WriteAt(b, off); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}
