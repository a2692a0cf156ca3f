package statelog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/chronik-io/chronik/internal/vfs"
)

// readAhead is the least number of bytes of a file that are read at a time.
const readAhead = 256 << 10

// reader reads the frames of one file in order.
type reader struct {
	name   string
	format *Format
	id     identity
	flags  byte
	off    int64 // of the next frame
	in     vfs.Window
}

// openReader opens a file and reads its header. A missing file and damaged content are *Damage;
// errors of the file system and a newer format are not.
func openReader(fsys vfs.FS, name string, f *Format, kind byte) (*reader, error) {
	file, err := fsys.Open(name)
	r := &reader{name: name, format: f, off: headerSize, in: vfs.Window{File: file, Step: readAhead}}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Damage{Name: f.Name, File: name, What: "the file is missing", Lost: true}
	}
	if err != nil {
		return nil, err
	}
	if err := r.begin(kind); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *reader) begin(kind byte) (err error) {
	if r.in.Size, err = r.in.File.Size(); err != nil {
		return err
	}
	h, err := r.fill(0, headerSize)
	if err != nil {
		return err
	}
	if r.id, err = r.format.parseHeader(h, kind); err == nil {
		r.flags = h[9]
	}
	if errors.Is(err, ErrNewerFormat) {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	if err != nil {
		return r.damage(0, err.Error())
	}
	return nil
}

// fill is Window.Fill, but fewer bytes than the file has are an error: a caller must not mistake
// them for a torn end.
func (r *reader) fill(off, n int64) ([]byte, error) {
	p, err := r.in.Fill(off, n)
	if err == nil && int64(len(p)) < min(n, r.in.Size-off) {
		err = fmt.Errorf("read %s: %w", r.name, io.ErrUnexpectedEOF)
	}
	return p, err // the errors of a file name it
}

func (r *reader) close() { _ = r.in.File.Close() } // it was only read

func (r *reader) damage(off int64, what string) error {
	return &Damage{Name: r.format.Name, File: r.name, Offset: int(off), What: what}
}

// next reads the frame at r.off and advances r.off. ok is false if there is no valid frame; then
// r.off does not change.
func (r *reader) next() (f frame, ok bool, err error) {
	p, err := r.fill(r.off, frameSize)
	if err != nil || len(p) < frameSize {
		return f, false, err
	}
	h := frameHeader(p[:frameSize])
	n := frameSize + h.length()
	if !h.isFrame() || n > r.in.Size-r.off {
		return f, false, nil
	}
	if p, err = r.fill(r.off, n); err != nil {
		return f, false, err
	}
	p = p[frameSize:n:n]
	if crc32.Update(r.id.sum(h[:]), castagnoli, p) != h.checksum() {
		return f, false, nil
	}
	f = h.frame(p)
	r.off += n
	return f, true, nil
}

// find returns the offset of the first valid frame at or after off, or -1.
func (r *reader) find(off int64) (int64, error) {
	for off < r.in.Size {
		p, err := r.fill(off, readAhead)
		if err != nil {
			return -1, err
		}
		for at := 0; ; at++ {
			i := bytes.Index(p[at:], []byte(frameMagic))
			if i < 0 {
				break
			}
			at += i
			if ok, err := r.isValid(off + int64(at)); ok || err != nil {
				return off + int64(at), err
			}
		}
		if off+int64(len(p)) >= r.in.Size {
			break
		}
		off += int64(len(p)) - int64(len(frameMagic)) + 1 // a magic may reach into the next window
	}
	return -1, nil
}

// isValid reports whether there is a valid frame at an offset. Its memory does not depend on the
// size that the frame claims.
func (r *reader) isValid(off int64) (bool, error) {
	var h frameHeader
	if r.in.Size-off < frameSize {
		return false, nil
	}
	if _, err := r.in.File.ReadAt(h[:], off); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	n := h.length()
	if !h.isFrame() || n > r.in.Size-off-frameSize {
		return false, nil
	}
	sum := checksum(r.id.sum(h[:]))
	if _, err := io.Copy(&sum, io.NewSectionReader(r.in.File, off+frameSize, n)); err != nil {
		return false, err
	}
	return uint32(sum) == h.checksum(), nil
}

// checksum is a CRC-32C of the bytes written to it.
type checksum uint32

func (c *checksum) Write(p []byte) (int, error) {
	*c = checksum(crc32.Update(uint32(*c), castagnoli, p))
	return len(p), nil
}
