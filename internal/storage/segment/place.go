package segment

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Files of a segment can be removed, replaced or cut while the broker runs. Its open files don't
// show that: what was removed stays readable until it is closed.

// restoredSuffix ends the name of a file of batches that PutBack writes, and otherSuffix, with a
// number behind it, that of a file which had the segment's name and is not the open one.
const (
	restoredSuffix = ".restored"
	otherSuffix    = ".other-"
)

// Whereabouts is what is known of a segment's file of batches and its name.
type Whereabouts struct {
	Open  bool // the file is open
	There bool // the name leads to a file, to the open one if there is one
}

// Whereabouts returns whether the name still leads to the file. there says that a file has
// the name.
func (s *Segment) Whereabouts(there bool) (p Whereabouts, err error) {
	h := s.files.peek(s.Path())
	if h == nil {
		return Whereabouts{There: there}, nil
	}
	defer s.files.release(h)
	p = Whereabouts{Open: true, There: there}
	if there {
		p.There, err = vfs.InPlace(h.f, s.Path())
	}
	return p, err
}

// Pin keeps the file open, if it is, until PutBack, Forget, Remove or Replace. The caller must be
// the only writer.
func (s *Segment) Pin() {
	if h := s.files.peek(s.Path()); h != nil && !s.pinned.CompareAndSwap(nil, h) {
		s.files.release(h)
	}
}

// unpin undoes Pin.
func (s *Segment) unpin() {
	if h := s.pinned.Swap(nil); h != nil {
		s.files.release(h)
	}
}

// PutBack writes the batches of the open file to a new one, which gets the segment's name when it
// is durable. Another file with that name is kept under another one. A segment without batches
// needs no open file. A segment that has failed stays read-only. The caller must be the only
// writer, and must sync the directory.
func (s *Segment) PutBack() error {
	if err := s.putBack(); err != nil {
		return fmt.Errorf("put segment back: %w", err)
	}
	s.saving.Lock()
	s.mu.Lock()
	if s.x != nil {
		s.x.savedOffsets, s.x.savedTimes = -1, -1 // their files were removed, too
	}
	s.mu.Unlock()
	s.saving.Unlock()
	s.SaveIndex()
	return nil
}

func (s *Segment) putBack() (err error) {
	s.mending.Lock() // nothing else writes to the file
	defer s.mending.Unlock()
	fsys, name, size := s.files.fs, s.Path(), s.Size()
	from := s.files.peek(name)
	if from == nil && size > 0 {
		return errors.New("it is not open")
	}
	if from != nil {
		defer s.files.release(from)
		if err := s.files.latched(from); err != nil {
			_ = s.latch(err)
		}
	}
	written := name + restoredSuffix
	if err := s.removeFiles([]string{LogSuffix + restoredSuffix}); err != nil {
		return err
	}
	to, err := fsys.Create(written)
	if err != nil {
		return err
	}
	if size > 0 {
		err = copyBytes(to, from.f, size)
	}
	if err == nil {
		err = to.Datasync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, fsys.Remove(written))
	}
	if _, err := fsys.Stat(name); err == nil {
		if err := fsys.Rename(name, fmt.Sprintf("%s%s%x", name, otherSuffix, time.Now().UnixNano())); err != nil {
			return err
		}
	}
	if err := fsys.Rename(written, name); err != nil {
		return err
	}
	s.unpin()
	s.files.forget(name)
	s.backed, s.allocated = size, false
	if s.Err() == nil { // otherwise some of the bytes may not be what was written
		s.synced.Store(size)
	}
	return nil
}

// copyBytes copies the first size bytes of a file.
func copyBytes(to, from vfs.File, size int64) error {
	b := make([]byte, min(size, backAt))
	for at := int64(0); at < size; {
		n := min(size-at, int64(len(b)))
		if _, err := vfs.ReadUncached(from, b[:n], at); err != nil {
			return err
		}
		if _, err := vfs.WriteVecUncached(to, [][]byte{b[:n]}, at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// Lose makes all of the segment, whose file is gone, a flaw. next is its end offset. Lose reports
// whether that is new.
func (s *Segment) Lose(next int64) bool {
	if s.Size() == 0 || s.gone.Swap(true) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addFlawsLocked([]Flaw{{Size: s.Size(), From: s.base, To: next, Epoch: -1}}, nil)
	return true
}

// Gone reports whether Lose was called, and Regain was not.
func (s *Segment) Gone() bool { return s.gone.Load() }

// Regain undoes Lose: the file is back. Reads verify what is in it. Regain reports whether anything
// changed.
func (s *Segment) Regain() bool {
	if !s.gone.Swap(false) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(s.Flaws()), func(f Flaw) bool { return f.Pos == 0 && f.Size >= s.Size() })
	s.flaws.Store(&rest)
	return true
}

// Before returns a point at or before a position of the file, from which Scrub finds damage there.
func (s *Segment) Before(pos int64) (Point, error) {
	h, err := s.open()
	if err != nil {
		return Point{}, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	at, next := s.before(h, pos)
	return Point{at, next}, nil
}

// Name returns the name of the file of batches in its directory.
func (s *Segment) Name() string { return path.Base(s.Path()) }

// peek returns the open handle of a path, nil if it is not open. The caller must call release.
func (s *Files) peek(path string) *handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.idleHandleLocked(path)
	if h != nil {
		h.unlist()
		h.refs++
	}
	return h
}
