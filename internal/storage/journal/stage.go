package journal

import "github.com/chronik-io/chronik/internal/vfs"

const (
	// block is what is written as a whole.
	block = vfs.DirectBlock
	// stageMin and stageMax bound the memory of a stage; larger groups take several
	// writes.
	stageMin, stageMax = 64 << 10, writeMax + 64<<10
)

// stage gathers the frames of one group and writes them in whole blocks past the system's
// cache: a copy into warm memory costs less than one into the cache, and than what the
// cache then has to do for it. Zeros fill the last block, and the next group begins at the
// block after it: a disk that loses power during a write may ruin every sector of that
// write, so no write may touch a block that holds acknowledged frames. A stage belongs to
// the writer.
type stage struct {
	buf   []byte // its length is what is gathered
	f     *file
	start int64 // where buf goes to, a multiple of block
	// cached: the bytes go through the system's cache, since nobody waits for
	// the disk.
	cached bool
	err    error
}

// begin starts a group of about n bytes at the end of the file.
func (s *stage) begin(f *file, n int64, cached bool) {
	want := int(min(align(n, stageMin), stageMax))
	if cap(s.buf) < want {
		s.buf = vfs.DirectBuffer(want)
	}
	s.f, s.cached, s.err, s.start, s.buf = f, cached, nil, f.off.Load(), s.buf[:0]
}

// add appends p, which it copies.
func (s *stage) add(p []byte) {
	for len(p) > 0 {
		if len(s.buf) == cap(s.buf) {
			s.flush(s.buf)
			s.start, s.buf = s.start+int64(len(s.buf)), s.buf[:0]
		}
		n := min(len(p), cap(s.buf)-len(s.buf))
		s.buf, p = append(s.buf, p[:n]...), p[n:]
	}
}

// pos is the position in the file after what was added.
func (s *stage) pos() int64 { return s.start + int64(len(s.buf)) }

// end fills the last block with zeros and writes what is left. The error is that of the
// first write that failed.
func (s *stage) end() error {
	n := len(s.buf)
	s.buf = s.buf[:align(int64(n), block)]
	clear(s.buf[n:])
	s.flush(s.buf)
	return s.err
}

func (s *stage) flush(p []byte) {
	switch {
	case s.err != nil || len(p) == 0:
	case s.cached:
		_, s.err = s.f.f.WriteAt(p, s.start)
	default:
		_, s.err = vfs.WriteDirect(s.f.f, p, s.start)
	}
}
