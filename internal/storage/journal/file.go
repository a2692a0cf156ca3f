package journal

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/vfs"
)

// file is one file of the journal that this process writes. Its datasync, after which a failed one
// allows no other call, is in writer.go.
type file struct {
	f        vfs.File
	name     string
	seq      uint64
	salt     uint64
	capacity int64

	// Frames may be written below zeroed: the blocks there are written and synced, so a full disk
	// cannot take them away.
	zeroed atomic.Int64

	// syncMu serializes datasyncs of the writer and of the preparer, so that an error returned to
	// one of them is latched before the other calls datasync.
	syncMu vfs.Mutex
	err    error       // the first failed write or datasync, or errClosed; guarded by syncMu
	closed bool        // guarded by syncMu
	failed atomic.Bool // err is set, and not errClosed

	// owned by the busy goroutine
	begun bool // the header is written
	id    [16]byte
	first LSN
	dirty bool
	// durable: the header is known to be on disk. A file whose first entry was dropped may be
	// synced before it has one.
	durable atomic.Bool
	off     atomic.Int64 // where the next write goes, a multiple of block; the preparer reads it
}

var (
	errDeadFile = errors.New("an earlier write or sync failed")
	errClosed   = errors.New("file is closed")
)

// write writes the staged frames at the end of the file, where the stage began. The next frames
// begin at a new block.
func (f *file) write(s *stage) error {
	err := f.writeAhead(s)
	if err == nil {
		f.off.Store(s.pos())
	}
	return err
}

// writeAhead writes what is staged without changing where the next frames begin.
func (f *file) writeAhead(s *stage) error {
	if !f.begun {
		if err := f.writeHeader(); err != nil {
			return err
		}
	}
	if err := s.end(); err != nil {
		return f.latch(err)
	}
	f.dirty = true
	return nil
}

// writeHeader writes both copies of the header, once for each use of a file. They become durable
// with the same datasync as the first frames.
//
// In a recycled file they replace the previous header, of which nothing is needed: Release or
// Resume released the file after a checkpoint that does not need it was durable, and the file
// already has its new name. If a power loss ruins both copies now, no frame of the new use was
// acknowledged, and frames of the previous use have another salt and lower LSNs.
func (f *file) writeHeader() error {
	if err := f.refused(); err != nil {
		return err
	}
	h := header{seq: f.seq, salt: f.salt, first: f.first, id: f.id, capacity: f.capacity}
	b := h.encode()
	for _, at := range []int64{0, secondHeader} {
		if _, err := f.f.WriteAt(b, at); err != nil {
			return f.latch(err)
		}
	}
	f.begun, f.dirty = true, true
	return nil
}

// zero extends the writable part of the file by up to n bytes of zeros. Its datasync guarantees
// that the blocks for frames exist. If paced, the disk gets one piece of them after the other,
// because others wait for it.
func (f *file) zero(n int64, paced bool) error {
	from := f.zeroed.Load()
	if n = min(n, f.capacity-from); n <= 0 {
		return nil
	}
	f.syncMu.Lock()
	defer f.syncMu.Unlock()
	if f.err != nil {
		return fmt.Errorf("%s: %w: %w", f.name, errDeadFile, f.err)
	}
	step := n
	if paced {
		step = pieceMax
	}
	for at := from; at < from+n; at += step {
		if err := f.zeroOnce(at, min(step, from+n-at)); err != nil {
			return err
		}
	}
	if err := f.f.Datasync(); err != nil {
		f.latchLocked(err)
		return fmt.Errorf("extend journal file: %w", err)
	}
	f.zeroed.Store(from + n)
	return nil
}

// zeroOnce writes n zeros at a position, and waits until the disk has them if more follow.
func (f *file) zeroOnce(at, n int64) error {
	var bufs [][]byte
	for left := n; left > 0; left -= int64(len(zeros)) {
		bufs = append(bufs, zeros[:min(left, int64(len(zeros)))])
	}
	if _, err := f.f.WriteVecAt(bufs, at); err != nil {
		if !vfs.Full(err) {
			f.latchLocked(err) // a full disk does not make the file unusable
		}
		return fmt.Errorf("extend journal file: %w", err)
	}
	if n > pieceMax {
		return nil // the datasync follows
	}
	if err := vfs.Writeback(f.f, at, n); err != nil {
		f.latchLocked(err)
		return fmt.Errorf("extend journal file: %w", err)
	}
	return nil
}

// close closes the file once and keeps the preparer from using it.
func (f *file) close() error {
	f.syncMu.Lock()
	defer f.syncMu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	f.latchLocked(errClosed)
	return f.f.Close()
}

// end syncs the file if it has to be synced, and closes it. No lock may be held: both may wait for
// the disk.
func (f *file) end() error {
	if f.dirty { // a file is synced before the next one begins
		if err := f.sync(); err != nil {
			return err
		}
	}
	if err := f.close(); err != nil {
		return fmt.Errorf("close %s: %w", f.name, err)
	}
	return nil
}

// dead reports whether a write or datasync has failed.
func (f *file) dead() bool { return f.failed.Load() }

// refused returns why nothing may be written to a dead file: the kernel may have dropped what was
// written before, so what follows would be lost with it, or hide it. All writes of frames ask. The
// preparer may be the one whose datasync failed, so the answer can change between two of them.
func (f *file) refused() error {
	if !f.dead() {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", f.name, errDeadFile, f.err) // no longer changed
}

const (
	// block is the unit of writes, in bytes.
	block = vfs.DirectBlock
	// stageMin and stageMax bound the memory of a stage; larger groups take several writes.
	stageMin, stageMax = 64 << 10, writeMax + 64<<10
	// referAt is the size from which a piece of a cached group is not copied.
	referAt = 8 << 10
)

// stage gathers the frames of one group and writes them in whole blocks, bypassing the page cache:
// copying into warm memory costs less than copying into the cache and its later write-back. A
// cached group, for which no owner waits for the disk, goes through the page cache. The stage then
// copies only headers and small payloads.
//
// Zeros fill the last block, and the next group begins at the following block: a disk that loses
// power during a write may ruin every sector of that write, so no write may touch a block that
// holds acknowledged frames. The busy goroutine owns the stage.
type stage struct {
	f     *file
	start int64    // file position of the gathered bytes, a multiple of block
	buf   []byte   // copied pieces
	vec   [][]byte // cached groups: pieces in order, in buf[:run] and elsewhere
	run   int
	size  int64 // number of gathered bytes
	err   error // of the first write that failed

	cached bool
}

// begin starts a group of about n bytes at a position of the file. Nothing is written, and end
// returns an error, unless that is a multiple of block.
func (s *stage) begin(f *file, at, n int64, cached bool) {
	want := int(min(align(n, stageMin), stageMax))
	if cap(s.buf) < want {
		s.buf = vfs.DirectBuffer(want)
	}
	clear(s.vec)
	*s = stage{f: f, start: at, buf: s.buf[:0], vec: s.vec[:0], cached: cached}
	if at%block != 0 { // the zeros that end another group would replace some of its bytes
		s.err = fmt.Errorf("a group at %d does not begin at a block of the journal", at)
	}
}

// add appends p. It may refer to p until end returns.
func (s *stage) add(p []byte) {
	if s.cached && len(p) >= referAt {
		s.refer()
		s.vec = append(s.vec, p)
		s.size += int64(len(p))
		return
	}
	for len(p) > 0 {
		if len(s.buf) == cap(s.buf) {
			s.flush()
		}
		n := min(len(p), cap(s.buf)-len(s.buf))
		s.buf, p = append(s.buf, p[:n]...), p[n:]
		s.size += int64(n)
	}
}

// refer adds to vec the bytes copied since its last call.
func (s *stage) refer() {
	if s.run < len(s.buf) {
		s.vec = append(s.vec, s.buf[s.run:])
		s.run = len(s.buf)
	}
}

// pos returns the position in the file after the added bytes.
func (s *stage) pos() int64 { return s.start + s.size }

// end fills the last block with zeros and writes the rest. It returns the error of the first write
// that failed.
func (s *stage) end() error {
	s.add(zeros[:align(s.pos(), block)-s.pos()])
	s.flush()
	return s.err
}

func (s *stage) flush() {
	if s.err == nil {
		s.err = s.f.refused()
	}
	switch {
	case s.err != nil || s.size == 0:
	case s.cached:
		s.refer()
		_, s.err = s.f.f.WriteVecAt(s.vec, s.start)
	default:
		_, s.err = vfs.WriteDirect(s.f.f, s.buf, s.start)
	}
	clear(s.vec) // release memory of others
	s.start, s.size, s.run = s.pos(), 0, 0
	s.buf, s.vec = s.buf[:0], s.vec[:0]
}
