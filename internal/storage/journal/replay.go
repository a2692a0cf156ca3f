package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Extent is what Scan found.
type Extent struct {
	// Next is the LSN after the last valid frame of the chain.
	Next LSN
	// Above is greater than every LSN seen in any file, of the chain or not.
	Above LSN
	Files []string // names of the files of the chain
}

// Scan reads the journal from a position on, changing nothing, and calls fn for
// every frame of the chain in LSN order. A Frame's payload is valid during the call.
//
// The chain ends at the first invalid frame s. That is the ordinary end of a
// journal whose last write was torn, unless a valid frame anywhere behind it
// says that s was known synced (durableThrough ≥ s): then, and where the first
// file is missing or not ours, the error matches ErrDamaged.
//
// A flipped bit in the very last synced group cannot be told from a torn write.
func (j *Journal) Scan(from Position, fn func(Frame) error) (Extent, error) {
	return scan(reader{fs: j.opt.FS, dir: j.opt.Dir, id: j.opt.ID, broken: j.opt.Broken}, from, fn)
}

// Read calls fn for the frames from a position through an LSN that owners have
// been told of. Unlike Scan it may run while the journal is written to.
func (j *Journal) Read(from Position, through LSN, fn func(Frame) error) error {
	seqs, err := sequences(j.opt.FS, j.opt.Dir, from.File)
	if err != nil {
		return err
	}
	r := reader{fs: j.opt.FS, dir: j.opt.Dir, id: j.opt.ID}
	var c chain
	for _, seq := range seqs {
		if c.began && c.next > through {
			break
		}
		err := r.open(seq)
		if c.began && errors.Is(err, fs.ErrNotExist) {
			continue // a spare one that got another name
		}
		if err != nil {
			return err
		}
		var takes bool
		if takes, err = c.takes(&r, from); takes {
			err = r.follow(&c.next, func(f Frame) error {
				if f.LSN > through {
					return nil
				}
				return fn(f)
			})
		}
		r.close()
		if err != nil {
			return err
		}
	}
	if !c.began || c.next <= through {
		return fmt.Errorf("%w: frames from LSN %d to %d are not to be read", ErrDamaged, max(c.next, from.LSN), through)
	}
	return nil
}

// chain is the sequence of files that hold the frames of one history.
type chain struct {
	next  LSN // the LSN that must come next
	began bool
	ended bool
}

// takes says whether the file that r has open belongs to the chain, which must
// begin with the file of from. A file without a header was named and never put to
// use, or its header and all its frames were lost with the power: neither breaks
// the chain, for a file that goes on with the expected LSN is only begun when
// everything before it is synced.
func (c *chain) takes(r *reader, from Position) (bool, error) {
	switch {
	case c.ended:
		return false, nil
	case c.began:
		c.ended = r.valid && r.h.first != c.next
		return r.valid && !c.ended, nil
	case r.name != fileName(from.File):
		return false, missing(r.dir, from)
	case !r.valid:
		return false, &Damage{Kind: NoHeader, File: r.name, LSN: from.LSN, text: fmt.Sprintf("%s in %s has no valid header", r.name, r.dir)}
	case r.h.first > from.LSN:
		return false, &Damage{Kind: BeginsLate, File: r.name, LSN: from.LSN, Proof: r.h.first,
			text: fmt.Sprintf("%s in %s begins at LSN %d, %d is needed", r.name, r.dir, r.h.first, from.LSN)}
	}
	c.began, c.next = true, r.h.first
	return true, nil
}

// Untouched says whether the file at a position was never written to but for
// its header, as a clean stop leaves it. LSN 0 stands for any.
func (j *Journal) Untouched(at Position) (bool, error) {
	return IsUntouched(j.opt.FS, j.opt.Dir, j.opt.ID, at)
}

// IsUntouched is Untouched of a journal that nobody has open.
func IsUntouched(fsys vfs.FS, dir string, id [16]byte, at Position) (bool, error) {
	r := reader{fs: fsys, dir: dir, id: id}
	if err := r.open(at.File); err != nil {
		return false, err
	}
	defer r.close()
	_, _, ok, err := r.frame(dataStart)
	return r.valid && (r.h.first == at.LSN || at.LSN == 0) && !ok, err
}

func scan(r reader, from Position, fn func(Frame) error) (Extent, error) {
	seqs, err := sequences(r.fs, r.dir, from.File)
	if err != nil {
		return Extent{}, err
	}
	ext := Extent{Next: from.LSN, Above: from.LSN}
	if from.File == 0 && len(seqs) == 0 {
		return ext, nil
	}
	if len(seqs) == 0 {
		return ext, missing(r.dir, from)
	}
	var c chain
	for _, seq := range seqs {
		if err := r.open(seq); err != nil {
			return ext, err
		}
		err := r.scan(&c, from, &ext, fn)
		r.close()
		if err != nil {
			return ext, err
		}
	}
	return ext, nil
}

// scan reads one file: what of it belongs to the chain, and what else it tells.
func (r *reader) scan(c *chain, from Position, ext *Extent, fn func(Frame) error) error {
	takes, err := c.takes(r, from)
	if takes {
		ext.Files = append(ext.Files, r.name)
		err = r.follow(&c.next, fn)
	}
	if err != nil {
		return err
	}
	ext.Next, ext.Above = c.next, max(ext.Above, c.next)
	if !r.valid {
		// Its header may have been there once: a datasync that covered a frame of the
		// file covered that too. Frames of a life before are all below what is needed.
		if err := r.assume(); err != nil {
			return err
		}
		if f, _, ok, err := r.frame(dataStart); err != nil || !ok || f.LSN < c.next {
			return err
		}
		return r.behind(c.next, &ext.Above)
	}
	ext.Above = max(ext.Above, r.h.first)
	return r.behind(c.next, &ext.Above)
}

// assume takes a file without a header to be of the life of its first frame.
func (r *reader) assume() error {
	if err := r.fill(dataStart + frameHeader); err != nil || len(r.buf) < dataStart+frameHeader {
		return err
	}
	r.h = header{salt: binary.LittleEndian.Uint64(r.buf[dataStart+16:])}
	return nil
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
	sort.Slice(seqs, func(i, k int) bool { return seqs[i] < seqs[k] })
	return seqs, nil
}

// reader reads one file at a time into a growing buffer, so that a file of
// which only the beginning is used costs only that.
type reader struct {
	fs    vfs.FS
	dir   string
	id    [16]byte
	f     vfs.File
	name  string
	h     header
	valid bool // has a header of this journal and of its own name
	size  int64
	buf   []byte // the file's first bytes
	pos   int64  // where the chain stopped

	broken Broken
}

const readStep = 1 << 20

func (r *reader) open(seq uint64) error {
	if err := r.begin(seq); err != nil {
		return err
	}
	for _, at := range []int{0, secondHeader} {
		if len(r.buf) < at+headerLen {
			continue
		}
		h, ok, err := decodeHeader(r.buf[at:])
		if err != nil {
			r.close()
			return fmt.Errorf("%s/%s: %w", r.dir, r.name, err)
		}
		if ok && h.seq == seq {
			if h.id != r.id {
				r.close()
				return &Damage{Kind: Foreign, File: r.name, text: fmt.Sprintf("%s/%s belongs to journal %x, not to %x", r.dir, r.name, h.id, r.id)}
			}
			r.h, r.valid = h, true
			return nil
		}
	}
	return nil
}

// begin opens a file and reads what stands before the frames.
func (r *reader) begin(seq uint64) error {
	r.name = fileName(seq)
	f, err := r.fs.Open(r.dir + "/" + r.name)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	r.f, r.buf, r.valid, r.pos = f, r.buf[:0], false, dataStart
	if r.size, err = f.Size(); err != nil {
		r.close()
		return fmt.Errorf("read journal: %w", err)
	}
	if err := r.fill(dataStart); err != nil {
		r.close()
		return err
	}
	return nil
}

func (r *reader) close() { _ = r.f.Close() }

// fill reads until the buffer holds the file's first n bytes, or all of it.
func (r *reader) fill(n int64) error {
	n = min(n, r.size)
	for int64(len(r.buf)) < n {
		at := len(r.buf)
		end := min(max(n, int64(at)+readStep), r.size)
		if int64(cap(r.buf)) < end {
			grown := make([]byte, at, min(max(2*end, readStep), max(r.size, end)))
			copy(grown, r.buf)
			r.buf = grown
		}
		r.buf = r.buf[:end]
		if _, err := r.f.ReadAt(r.buf[at:], int64(at)); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read journal: %w", err)
		}
	}
	return nil
}

// frame decodes the frame at pos, if there is a valid one.
func (r *reader) frame(pos int64) (Frame, int64, bool, error) {
	if err := r.fill(pos + frameHeader); err != nil {
		return Frame{}, 0, false, err
	}
	if pos+frameHeader > int64(len(r.buf)) {
		return Frame{}, 0, false, nil
	}
	n, ok := frameLen(r.buf[pos:])
	if !ok || pos+n > r.size {
		return Frame{}, 0, false, nil
	}
	if err := r.fill(pos + n); err != nil {
		return Frame{}, 0, false, err
	}
	f, size, ok := parseFrame(r.buf[pos:], r.h.salt)
	return f, int64(size), ok, nil
}

// after is the position that follows a frame.
func after(pos, size int64, f *Frame) int64 {
	if f.last {
		return align(pos+size, block)
	}
	return align(pos+size, 8)
}

// follow reads frames from the file's beginning while they are valid and dense.
func (r *reader) follow(expect *LSN, fn func(Frame) error) error {
	for {
		f, size, ok, err := r.frame(r.pos)
		if err != nil {
			return err
		}
		if !ok || f.LSN != *expect {
			return nil
		}
		if fn != nil {
			if err := fn(f); err != nil {
				return err
			}
		}
		*expect++
		r.pos = after(r.pos, size, &f)
	}
}

// behind looks at everything that follows where the chain ended: a valid frame
// there that knew end to be synced proves damage. A write begins with a frame
// at the start of a block; its other frames follow.
func (r *reader) behind(end LSN, above *LSN) error {
	for at := align(r.pos, block); at < r.size; at += block {
		for pos := at; ; {
			f, size, ok, err := r.frame(pos)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			*above = max(*above, f.LSN+1)
			if f.DurableThrough >= end && f.LSN >= end && !r.broken.has(Unalarmed) {
				return &Damage{Kind: InvalidFrame, File: r.name, Pos: r.pos, LSN: end, Proof: f.LSN,
					text: fmt.Sprintf("LSN %d is invalid at position %d of %s/%s, but LSN %d knew it to be synced", end, r.pos, r.dir, r.name, f.LSN)}
			}
			if f.last {
				break
			}
			pos = after(pos, size, &f)
		}
	}
	return nil
}

// Empty says whether no file holds a frame, of any life. A file whose header
// did not reach the disk is one of a first start that did not get further.
func (j *Journal) Empty() (bool, error) {
	seqs, err := sequences(j.opt.FS, j.opt.Dir, 0)
	if err != nil {
		return false, err
	}
	r := reader{fs: j.opt.FS, dir: j.opt.Dir, id: j.opt.ID}
	for _, seq := range seqs {
		if err := r.open(seq); err != nil {
			return false, err
		}
		err := r.fill(dataStart + frameHeader)
		r.close()
		if err != nil {
			return false, err
		}
		if len(r.buf) > dataStart {
			if _, ok := frameLen(r.buf[dataStart:]); ok {
				return false, nil
			}
		}
	}
	return true, nil
}

// SyncFiles makes what was read from files durable: after the end of a process
// they read well and may still be in the page cache only.
func (j *Journal) SyncFiles(names []string) error {
	for _, name := range names {
		f, err := j.opt.FS.Open(j.opt.Dir + "/" + name)
		if err != nil {
			return fmt.Errorf("sync journal: %w", err)
		}
		err = f.Datasync()
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return fmt.Errorf("sync journal: %w", err)
		}
	}
	return nil
}

// Exists says whether a directory holds any journal file; a missing directory
// holds none.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	seqs, err := sequences(fsys, dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(seqs) > 0, err
}

// DamageKind says in which way a journal is damaged.
type DamageKind uint8

// The kinds of damage that make a start refuse a journal.
const (
	// MissingFile: the first file that is needed is not there.
	MissingFile DamageKind = iota + 1
	// NoHeader: it has no valid header.
	NoHeader
	// BeginsLate: it begins above the first LSN that is needed.
	BeginsLate
	// Foreign: a file belongs to another journal.
	Foreign
	// InvalidFrame: a frame is not what was written, or not there, and a later one
	// knew it to be synced.
	InvalidFrame
)

// Damage is damage, and where it is. It matches ErrDamaged.
type Damage struct {
	Kind DamageKind
	File string // name in the journal's directory
	// Pos is where the chain of valid frames ended in File; of InvalidFrame only. LSN
	// is the first that is missing, Proof the one that tells.
	Pos        int64
	LSN, Proof LSN

	text string
}

// Error says what is wrong and where.
func (d *Damage) Error() string { return fmt.Sprintf("%v: %s", ErrDamaged, d.text) }

// Unwrap makes it match ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

func missing(dir string, from Position) error {
	name := fileName(from.File)
	return &Damage{Kind: MissingFile, File: name, LSN: from.LSN, text: fmt.Sprintf("%s is needed and missing in %s", name, dir)}
}
