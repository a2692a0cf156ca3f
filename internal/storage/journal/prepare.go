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
	kick := s.kick
	for {
		select {
		case <-s.quit:
			return
		case <-kick:
		case <-retry.C:
		}
		kick = s.kick
		worked, err := s.prepareOnce()
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		switch {
		case err != nil:
			s.poke() // a writer that is about to end must not wait for room
			// A full disk may have room again. Until then kicks, of which every
			// look of the writer is one, change nothing.
			kick = nil
			retry.Reset(time.Second)
		case worked:
			s.poke()
			retry.Reset(0)
		default:
			retry.Reset(time.Hour)
		}
	}
}

// stalled returns why no room could be made, if that is so.
func (s *space) stalled() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastErr
}

// prepareOnce does the most urgent piece of work and reports whether there was any.
func (s *space) prepareOnce() (bool, error) {
	s.mu.Lock()
	cur, next, want := s.cur, s.next, s.want
	s.mu.Unlock()
	if cur == nil {
		return false, nil
	}
	off := cur.off.Load()
	switch {
	case cur.dead():
		// The next write finds that and has the journal begin another file. Until then it
		// is no lack of room: records that are refused for that would never come to it.
		return false, nil
	case next != nil && next.dead():
		return true, s.replace(next, want)
	case cur.zeroed.Load() < min(cur.capacity, off+zeroAhead):
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

// replace makes a file the next one instead of old, which may be nil, unless
// the journal moved on meanwhile: files follow one another in the order of their
// names.
func (s *space) replace(old *file, want int64) error {
	s.names.Lock()
	defer s.names.Unlock()
	f, err := s.make(want)
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

// extend writes zeros ahead. A file that was left meanwhile needs none.
func (s *space) extend(f *file, n int64) (bool, error) {
	err := f.zero(n)
	if errors.Is(err, errClosed) {
		return true, nil
	}
	return true, err
}

// dispose closes a file that was made and never put to use. The caller holds
// names.
func (s *space) dispose(f *file) {
	dead := f.dead()
	_ = f.close() // nothing of it counts
	s.retire(f.name, f.zeroed.Load(), dead || f.capacity != s.opt.FileSize)
}

// make names a file for use: one that is not needed any more, or a new one. The
// caller holds names.
func (s *space) make(want int64) (*file, error) {
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
	if s.opt.Broken.has(Saltless) {
		f.salt = 0
	}
	if err := s.open(f, old); err != nil {
		return nil, fmt.Errorf("prepare journal file: %w", err)
	}
	if err := s.opt.FS.SyncDir(s.opt.Dir); err != nil {
		s.discard(f)
		return nil, fmt.Errorf("prepare journal file: %w", err)
	}
	if err := f.zero(zeroStep); err != nil {
		s.discard(f)
		return nil, err
	}
	return f, nil
}

// open makes the file under its name, out of an old one if there is one.
func (s *space) open(f *file, old spare) (err error) {
	if old.name == "" {
		f.f, err = s.opt.FS.Create(s.path(f.name))
		return err
	}
	if err := s.opt.FS.Rename(s.path(old.name), s.path(f.name)); err != nil {
		return err // a new start finds the old file
	}
	f.zeroed.Store(min(old.size, f.capacity) &^ (block - 1))
	if f.f, err = s.opt.FS.Open(s.path(f.name)); err != nil {
		_ = s.opt.FS.Remove(s.path(f.name)) // it only takes space
	}
	return err
}

// discard removes a file that could not be prepared, so that trying again on a
// full disk doesn't fill it.
func (s *space) discard(f *file) {
	_ = f.close()
	_ = s.opt.FS.Remove(s.path(f.name)) // the next start tries again
}
