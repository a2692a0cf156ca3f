package journal

import (
	"encoding/binary"

	"github.com/chronik-io/chronik/internal/vfs"
)

// ScanDir is Scan of a journal that nobody has open.
func ScanDir(fsys vfs.FS, dir string, id [16]byte, from Position, fn func(Frame) error) (Extent, error) {
	return scan(reader{fs: fsys, dir: dir, id: id}, from, fn)
}

// FileInfo is what the beginning of a journal file says.
type FileInfo struct {
	Name string
	Seq  uint64
	Size int64
	// Valid: there is a header of this file's own name. What follows means nothing
	// without one.
	Valid    bool
	Copies   int // of the header that are valid, 0 to 2
	First    LSN
	ID       [16]byte
	Capacity int64
	// Newer is set where a later version of chronik wrote the header.
	Newer error
}

// Files describes the files of a journal from a sequence on, in their order.
func Files(fsys vfs.FS, dir string, first uint64) ([]FileInfo, error) {
	seqs, err := sequences(fsys, dir, first)
	if err != nil {
		return nil, err
	}
	list := make([]FileInfo, 0, len(seqs))
	for _, seq := range seqs {
		r := reader{fs: fsys, dir: dir}
		info, err := r.describe(seq)
		if err != nil {
			return nil, err
		}
		r.close()
		list = append(list, info)
	}
	return list, nil
}

// describe opens a file, whichever journal it belongs to, and reads its header.
// Without an error the file is open.
func (r *reader) describe(seq uint64) (FileInfo, error) {
	info := FileInfo{Seq: seq, Name: fileName(seq)}
	any := reader{fs: r.fs, dir: r.dir, buf: r.buf}
	err := any.begin(seq)
	if err != nil {
		return info, err
	}
	info.Size = any.size
	for _, at := range []int{0, secondHeader} {
		if len(any.buf) < at+headerLen {
			continue
		}
		h, ok, err := decodeHeader(any.buf[at:])
		if err != nil {
			info.Newer = err
		}
		if ok && h.seq == seq {
			info.Copies++
			info.Valid, info.First, info.ID, info.Capacity = true, h.first, h.id, h.capacity
			any.h, any.valid = h, true
		}
	}
	*r = any
	return info, nil
}

// At is a valid frame and where it stands in its file.
type At struct {
	Frame
	Pos int64
	// Before is what stands where a frame was expected before this one, with a wrong
	// checksum: what it says may be true or not. nil where nothing looks like a frame, or
	// this one follows the one before.
	Before *Frame
}

// Walked is what Walk found beside frames.
type Walked struct {
	FileInfo
	End  int64  // where the next frame was expected behind the last one
	Tail *Frame // what stands there, as At.Before
}

// Walk calls fn for every valid frame of a file's life in the order of their
// positions, whatever stands between them, also where a start would not read so
// far. The life of a file without a header is that of its first frame. Payloads are
// valid during the call. It takes the memory of the file.
func Walk(fsys vfs.FS, dir string, seq uint64, fn func(At) error) (Walked, error) {
	r := reader{fs: fsys, dir: dir}
	info, err := r.describe(seq)
	w := Walked{FileInfo: info, End: dataStart}
	if err != nil {
		return w, err
	}
	defer r.close()
	if info.Newer != nil {
		return w, info.Newer
	}
	if err := r.fill(r.size); err != nil {
		return w, err
	}
	if !r.valid {
		if err := r.assume(); err != nil {
			return w, err
		}
	}
	for pos := int64(dataStart); pos+frameHeader <= r.size; {
		f, size, ok := parseFrame(r.buf[pos:], r.h.salt)
		if !ok {
			if pos == w.End {
				w.Tail = r.claim(pos)
			}
			pos += 8
			continue
		}
		if err := fn(At{Frame: f, Pos: pos, Before: w.Tail}); err != nil {
			return w, err
		}
		pos = after(pos, int64(size), &f)
		w.End, w.Tail = pos, nil
	}
	return w, nil
}

// claim reads what the bytes at a position say of a frame of the file's life, whatever
// their checksum; nil where they are no header of one.
func (r *reader) claim(pos int64) *Frame {
	b := r.buf[pos:]
	if _, magic := frameLen(b); !magic || binary.LittleEndian.Uint64(b[16:]) != r.h.salt {
		return nil
	}
	f := frameFields(b)
	return &f
}
