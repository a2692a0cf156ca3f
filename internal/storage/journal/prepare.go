package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// prepare is the preparer goroutine.
func (s *space) prepare() {
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	wake, stalled := s.wake, false // as Stalls last reported
	for {
		select {
		case <-s.quit:
			return
		case <-wake:
		case <-retry.C:
		}
		wake = s.wake
		worked, err := s.prepareOnce()
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		// Not compared with lastErr: begin clears it while a call of Stalls may still act on it.
		if now := err != nil; now != stalled && s.opt.Stalls != nil {
			stalled = now
			s.opt.Stalls()
		}
		switch {
		case err != nil:
			s.wakeWriter() // a writer that is about to stop must not wait for space
			// A full disk may get space again. Until then wake-ups change nothing, and every check
			// by the writer is one.
			wake = nil
			retry.Reset(time.Second)
		case worked:
			s.wakeWriter()
			retry.Reset(0)
		default:
			retry.Reset(time.Hour)
		}
	}
}

// prepareOnce does the most urgent step and reports whether there was one.
func (s *space) prepareOnce() (bool, error) {
	s.mu.Lock()
	cur, next, want, reach := s.cur, s.next, s.want, s.reach
	s.mu.Unlock()
	if cur == nil {
		return false, nil
	}
	off := cur.off.Load()
	switch {
	case cur.dead():
		// The writer, which was woken, fails if it has to sync entries in the file, and otherwise
		// with the next write. Then the journal begins another file. Until then this is no lack of
		// space: entries that were refused for lack of space would never trigger that write.
		return false, nil
	case next != nil && next.dead():
		return true, s.replace(next, want)
	case cur.zeroed.Load() < min(cur.capacity, max(off+zeroAhead, reach)):
		return s.extend(cur, zeroStep)
	case next != nil && next.capacity >= want:
		if next.zeroed.Load() < next.capacity {
			return s.extend(next, 4*zeroStep)
		}
		return false, nil
	case want > 0 || off > cur.capacity/4:
		return true, s.replace(next, want)
	}
	return false, nil
}

// replace creates a file and makes it the next one in place of old, which may be nil. If the
// journal has moved on to a later file meanwhile, the new file is disposed of: files must follow
// one another in the order of their names.
func (s *space) replace(old *file, want int64) error {
	s.names.Lock()
	defer s.names.Unlock()
	f, err := s.newFile(want)
	// The writer may have space in old already: it must find as much in the new file, or zeros
	// would cover what it writes beyond.
	for err == nil && old != nil && f.zeroed.Load() < f.capacity {
		if err = f.zero(4*zeroStep, s.smallTraffic()); err != nil {
			s.discard(f)
		}
	}
	if err != nil {
		return err
	}
	unused := f
	s.mu.Lock()
	if !s.ended && s.cur != nil && s.cur.seq < f.seq && (s.next == nil || s.next == old) {
		unused, s.next = s.next, f
	}
	s.mu.Unlock()
	if unused != nil {
		s.dispose(unused)
	}
	return nil
}

// extend writes zeros ahead. A file that was closed meanwhile needs none.
func (s *space) extend(f *file, n int64) (bool, error) {
	err := f.zero(n, s.smallTraffic())
	if errors.Is(err, errClosed) {
		return true, nil
	}
	return true, err
}

// dispose closes a file that was created and never used. The caller must hold names.
func (s *space) dispose(f *file) {
	dead := f.dead()
	_ = f.close() // it holds no needed frame
	s.retire(f.name, f.zeroed.Load(), dead || f.capacity != s.opt.FileSize)
}

// newFile prepares a file: it renames a spare file or creates a new one. The caller must hold
// names.
func (s *space) newFile(want int64) (*file, error) {
	s.mu.Lock()
	s.maxSeq++
	seq := s.maxSeq
	var old spare
	if want <= s.opt.FileSize && len(s.free) > 0 {
		old = s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
	}
	s.mu.Unlock()
	f := &file{name: fileName(seq), seq: seq, capacity: max(s.opt.FileSize, align(want, block))}
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	f.salt = binary.LittleEndian.Uint64(salt[:])
	if s.opt.Broken.Has(IgnoreSalt) {
		f.salt = 0
	}
	if err := s.open(f, old); err != nil {
		return nil, fmt.Errorf("prepare journal file: %w", err)
	}
	if err := s.opt.FS.SyncDir(s.opt.Dir); err != nil {
		s.discard(f)
		return nil, fmt.Errorf("prepare journal file: %w", err)
	}
	if err := f.zero(zeroStep, s.smallTraffic()); err != nil {
		s.discard(f)
		return nil, err
	}
	return f, nil
}

// open creates the file under its name, or renames the spare file old to it.
func (s *space) open(f *file, old spare) (err error) {
	if old.name == "" {
		f.f, err = s.opt.FS.Create(s.path(f.name))
		return err
	}
	if err := s.opt.FS.Rename(s.path(old.name), s.path(f.name)); err != nil {
		return err // recovery finds the old file
	}
	f.zeroed.Store(min(old.size, f.capacity) &^ (block - 1))
	if f.f, err = s.opt.FS.Open(s.path(f.name)); err != nil {
		_ = s.opt.FS.Remove(s.path(f.name)) // it only takes up space
	}
	return err
}

// discard removes a file that could not be prepared, so that repeated attempts do not fill a full
// disk.
func (s *space) discard(f *file) {
	_ = f.close()
	_ = s.opt.FS.Remove(s.path(f.name)) // recovery tries again
}
