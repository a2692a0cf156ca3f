package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/vfs"
)

// FileInfo describes a journal file by its name, size and header.
type FileInfo struct {
	Name string
	Seq  uint64
	Size int64
	// Valid: the file has a header with the sequence of its name. The fields below mean nothing
	// without one.
	Valid  bool
	Copies int // number of valid copies of the header, 0 to 2
	First  LSN
	ID     [16]byte
	// Newer is set if a later version of chronik wrote the header.
	Newer error
}

// Files describes the files of a directory from sequence first on, in order, whichever journal they
// belong to.
func Files(fsys vfs.FS, dir string, first uint64) (list []FileInfo, err error) {
	r := reader{fs: fsys, dir: dir, any: true}
	err = r.each(first, func() (bool, error) { list = append(list, r.FileInfo); return true, nil })
	return list, err
}

// sequences returns the sequences of the files from first on, ascending.
func sequences(fsys vfs.FS, dir string, first uint64) ([]uint64, error) {
	infos, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	var seqs []uint64
	for _, in := range infos {
		if seq, ok := parseName(in.Name); ok && seq >= first {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

// reader reads one file at a time, through a window.
type reader struct {
	fs     vfs.FS
	dir    string
	id     [16]byte
	any    bool // also open files of other journals and versions
	broken Broken

	FileInfo
	salt uint64
	pos  int64 // where the chain ended
	win  vfs.Window
}

// readStep is the least number of bytes read at a time.
const readStep = 1 << 20

// each opens the files from sequence first on, one after the other in order, and calls fn until it
// returns false. It skips a file that no longer exists: it was a spare file and has been renamed.
func (r *reader) each(first uint64, fn func() (more bool, err error)) error {
	seqs, err := sequences(r.fs, r.dir, first)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if err := r.open(seq); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		more, err := fn()
		r.close()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// open opens a file and reads its header.
func (r *reader) open(seq uint64) error {
	name := fileName(seq)
	if err := r.openFile(path.Join(r.dir, name)); err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	r.Name, r.Seq, r.pos = name, seq, dataStart
	err := r.header()
	if err == nil && !r.any {
		switch {
		case r.Newer != nil:
			err = fmt.Errorf("%s/%s: %w", r.dir, name, r.Newer)
		case r.Valid && r.ID != r.id:
			err = &Damage{Kind: Foreign, File: name, text: fmt.Sprintf("%s/%s belongs to journal %x, not to %x", r.dir, name, r.ID, r.id)}
		}
	}
	if err != nil {
		r.close()
	}
	return err
}

func (r *reader) openFile(name string) error {
	f, err := r.fs.Open(name)
	if err != nil {
		return err
	}
	r.FileInfo, r.salt = FileInfo{}, 0
	if r.Size, err = f.Size(); err != nil {
		_ = f.Close()
	}
	r.win = vfs.Window{File: f, Size: r.Size, Step: readStep, Buf: r.win.Buf[:0]}
	return err
}

func (r *reader) close() { _ = r.win.File.Close() } // it was only read

// header reads both copies of the header. The first valid one counts.
func (r *reader) header() error {
	for _, at := range []int64{0, secondHeader} {
		b, err := r.win.Fill(at, headerLen)
		if err != nil {
			return err
		}
		h, ok, err := decodeHeader(b)
		if err != nil && !r.Valid {
			r.Newer = err
		}
		if !ok || h.seq != r.Seq {
			continue
		}
		if r.Copies++; !r.Valid {
			r.Valid, r.First, r.ID, r.salt = true, h.first, h.id, h.salt
		}
	}
	return nil
}

// adoptSalt uses the salt of the first frame, for a file without a header.
func (r *reader) adoptSalt() error {
	b, err := r.win.Fill(dataStart, frameHeader)
	if len(b) >= frameHeader {
		r.salt = binary.LittleEndian.Uint64(b[16:])
	}
	return err
}

// frame decodes the frame at pos, if it is valid.
func (r *reader) frame(pos int64) (f Frame, size int64, ok bool, err error) {
	b, err := r.win.Fill(pos, frameHeader)
	n, ok := frameLen(b)
	// Records may contain the magic number with any length after it. Their producer does not know
	// the salt: without it, that length is not read.
	if err != nil || !ok || pos+n > r.Size || binary.LittleEndian.Uint64(b[16:]) != r.salt {
		return f, 0, false, err
	}
	if b, err = r.win.Fill(pos, n); err != nil {
		return f, 0, false, err
	}
	f, ok = parseFrame(b, r.salt)
	return f, n, ok, nil
}

// after returns the position that follows a frame.
func after(pos, size int64, f *Frame) int64 {
	if f.Type == Skip && f.NextEnd > pos && f.NextEnd%block == 0 {
		return f.NextEnd
	}
	if f.last {
		return align(pos+size, block)
	}
	return align(pos+size, 8)
}

// FrameAt is a valid frame and its position in the file.
type FrameAt struct {
	Frame
	Pos int64
	// Before is the frame header with a wrong checksum that was found where a frame was expected
	// before this one; its fields may be wrong. nil if no header was found there, or if this frame
	// directly follows the previous one.
	Before *Frame
}

// WalkResult is what Walk found in addition to frames.
type WalkResult struct {
	FileInfo
	End  int64  // where the next frame was expected after the last one
	Tail *Frame // the header with a wrong checksum found there; see FrameAt.Before
}

// Walk calls fn for every valid frame of a file in the order of positions. It passes over invalid
// bytes between frames, where recovery would stop. Without a file header, Walk accepts frames with
// the salt of the first frame. Payloads are valid during the call.
func Walk(fsys vfs.FS, dir string, seq uint64, fn func(FrameAt) error) (WalkResult, error) {
	r := reader{fs: fsys, dir: dir, any: true}
	if err := r.open(seq); err != nil {
		return WalkResult{}, err
	}
	defer r.close()
	w, err := WalkResult{FileInfo: r.FileInfo, End: dataStart}, r.Newer
	if err == nil && !r.Valid {
		err = r.adoptSalt()
	}
	for pos := int64(dataStart); err == nil && pos+frameHeader <= r.Size; {
		f, size, ok, e := r.frame(pos)
		switch {
		case e != nil:
			err = e
		case ok:
			err = fn(FrameAt{Frame: f, Pos: pos, Before: w.Tail})
			pos = after(pos, size, &f)
			w.End, w.Tail = pos, nil
		default:
			if pos == w.End {
				w.Tail, err = r.claim(pos)
			}
			pos += 8
		}
	}
	return w, err
}

// claim returns the frame header at a position without verifying its checksum, or nil if the bytes
// are no frame header with the file's salt.
func (r *reader) claim(pos int64) (*Frame, error) {
	b, err := r.win.Fill(pos, frameHeader)
	if _, magic := frameLen(b); !magic || binary.LittleEndian.Uint64(b[16:]) != r.salt {
		return nil, err
	}
	f := frameFields(b)
	return &f, nil
}

// ReadQuarantine calls fn for the frames in a file written with Frame.Encode, in order. A payload
// is valid during the call. Every byte of such a file was synced before anything referred to it, so
// an invalid or incomplete frame is reported as ErrDamaged.
func ReadQuarantine(fsys vfs.FS, name string, fn func(Frame) error) error {
	r := reader{fs: fsys}
	if err := r.openFile(name); err != nil {
		return fmt.Errorf("read quarantined frames: %w", err)
	}
	defer r.close()
	for pos := int64(0); pos < r.Size; {
		f, size, ok, err := r.frame(pos)
		if err == nil && !ok {
			err = fmt.Errorf("%w: %s has no valid frame at %d", ErrDamaged, name, pos)
		}
		if err == nil {
			err = fn(f)
		}
		if err != nil {
			return err
		}
		pos += size
	}
	return nil
}
