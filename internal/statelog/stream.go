package statelog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/chronik-io/chronik/internal/vfs"
)

// readAhead is how many bytes of a file the reader has in memory, in addition to one frame.
const readAhead = 256 << 10

// reader reads the frames of one file in order.
type reader struct {
	file   vfs.File
	name   string
	format *Format
	id     identity
	size   int64
	off    int64 // of the next frame
	in     *bufio.Reader
	buf    []byte // payload of the last frame
}

// openReader opens a file and reads its header. Every fault of the content is *Damage, except a
// newer format.
func openReader(fsys vfs.FS, name string, f *Format, kind byte) (*reader, error) {
	file, err := fsys.Open(name)
	r := &reader{file: file, name: name, format: f, off: headerSize}
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
	if r.size, err = r.file.Size(); err != nil {
		return err
	}
	r.in = bufio.NewReaderSize(io.NewSectionReader(r.file, 0, r.size), readAhead)
	h := make([]byte, min(headerSize, r.size))
	if _, err := io.ReadFull(r.in, h); err != nil {
		return fmt.Errorf("read %s: %w", r.name, err)
	}
	r.id, err = r.format.parseHeader(h, kind)
	if errors.Is(err, ErrNewerFormat) {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	if err != nil {
		return r.damage(0, err.Error())
	}
	return nil
}

func (r *reader) close() { _ = r.file.Close() } // it was only read

func (r *reader) damage(off int64, what string) error {
	return &Damage{Name: r.format.Name, File: r.name, Offset: int(off), What: what}
}

// next reads the frame at r.off and advances r.off. ok is false if there is no valid frame; then
// r.off does not change, and next must not be called again.
func (r *reader) next() (f frame, ok bool, err error) {
	var h frameHeader
	if r.size-r.off < frameSize {
		return f, false, nil
	}
	if _, err := io.ReadFull(r.in, h[:]); err != nil {
		return f, false, fmt.Errorf("read %s: %w", r.name, err)
	}
	n := h.length()
	if !h.isFrame() || n > r.size-r.off-frameSize {
		return f, false, nil
	}
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	p := r.buf[:n]
	if _, err := io.ReadFull(r.in, p); err != nil {
		return f, false, fmt.Errorf("read %s: %w", r.name, err)
	}
	if crc32.Update(r.id.sum(h[:]), castagnoli, p) != h.checksum() {
		return f, false, nil
	}
	f = h.frame(p)
	r.off += f.size()
	return f, true, nil
}

// find returns the offset of the first valid frame at or after off, or -1.
func (r *reader) find(off int64) (int64, error) {
	window := make([]byte, readAhead)
	for off < r.size {
		p := window[:min(readAhead, r.size-off)]
		if _, err := r.file.ReadAt(p, off); err != nil && !errors.Is(err, io.EOF) {
			return -1, fmt.Errorf("read %s: %w", r.name, err)
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
		if off+int64(len(p)) == r.size {
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
	if r.size-off < frameSize {
		return false, nil
	}
	if _, err := r.file.ReadAt(h[:], off); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %s: %w", r.name, err)
	}
	n := h.length()
	if !h.isFrame() || n > r.size-off-frameSize {
		return false, nil
	}
	sum := checksum(r.id.sum(h[:]))
	if _, err := io.Copy(&sum, io.NewSectionReader(r.file, off+frameSize, n)); err != nil {
		return false, fmt.Errorf("read %s: %w", r.name, err)
	}
	return uint32(sum) == h.checksum(), nil
}

// checksum is a CRC-32C of the bytes written to it.
type checksum uint32

func (c *checksum) Write(p []byte) (int, error) {
	*c = checksum(crc32.Update(uint32(*c), castagnoli, p))
	return len(p), nil
}
