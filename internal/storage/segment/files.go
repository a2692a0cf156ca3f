package segment

import (
	"container/list"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Files keeps a bounded number of segment files open and closes the least recently used one. It
// syncs a file with unsynced bytes before closing it: the kernel reports a write-back error only to
// processes that have the file open.
type Files struct {
	fs       vfs.FS
	max      int
	indexes  indexCache
	verified verified
	contents atomic.Uint64 // the last Segment.content, which is unique in verified
	busy     func() bool   // see YieldTo; nil: nothing else uses the disk
	pace     pace

	mu   sync.Mutex
	idle *sync.Cond // signaled when a file is no longer busy
	open map[string]*handle
	lent int // files with loans
	// Unused handles, most recently used in front: those with unsynced bytes, and the others.
	// Finding a victim must not require a scan of all open files.
	clean, dirty list.List
}

// handle is an open file used by refs callers.
type handle struct {
	f    vfs.File
	path string

	// Guarded by Files.mu.
	refs  int
	loans int        // of the refs
	busy  bool       // is being opened or closed, without the lock; others wait
	dirty bool       // written since the last datasync
	err   error      // of the datasync before closing; the file is never synced again
	gone  bool       // forgotten: the last user closes it
	in    *list.List // clean or dirty; nil while it is in use or busy
	at    *list.Element

	alone atomic.Bool // the system reads only what it is asked for, see yield
}

// NewFiles returns a set that keeps about max files open; the files in use may exceed it.
func NewFiles(fs vfs.FS, max int) *Files {
	s := &Files{fs: fs, max: max, open: map[string]*handle{}, indexes: indexCache{bound: 16 << 20},
		verified: verified{clock: stopwatch()}}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// YieldTo sets a function that reports whether others use the disk at present. While they do,
// appends and reads of batches take the disk in small pieces, one at a time. The function is called
// before every append and every piece of a read. YieldTo must be called before the first of them.
func (s *Files) YieldTo(busy func() bool) { s.busy = busy }

// yields reports whether others use the disk.
func (s *Files) yields() bool { return s.busy != nil && s.busy() }

// yield is yields for a read. It sets the read-ahead of the file accordingly: the system may read
// 8 MiB ahead, and more in a sequence, for which the others would wait.
func (s *Files) yield(h *handle) bool {
	busy := s.yields()
	if h.alone.Load() != busy && h.alone.Swap(busy) != busy {
		vfs.SetReadAhead(h.f, !busy)
	}
	return busy
}

// idleHandleLocked returns the handle of a path when no goroutine is opening or closing it; nil if
// it is not open.
func (s *Files) idleHandleLocked(path string) *handle {
	h := s.open[path]
	for h != nil && h.busy {
		s.idle.Wait()
		h = s.open[path]
	}
	return h
}

// acquire opens a file, or uses the open handle. The caller must call release.
func (s *Files) acquire(path string, create bool) (*handle, error) {
	s.mu.Lock()
	if h := s.idleHandleLocked(path); h != nil {
		h.unlist()
		h.refs++
		s.mu.Unlock()
		return h, nil
	}
	h := &handle{path: path, refs: 1, busy: true}
	victims := s.victimsLocked()
	s.open[path] = h
	s.mu.Unlock()

	for _, v := range victims {
		s.evict(v)
	}
	var err error
	if create {
		h.f, err = s.fs.Create(path)
	} else {
		h.f, err = s.fs.Open(path)
	}
	s.mu.Lock()
	h.busy = false
	if err != nil {
		delete(s.open, path)
	}
	s.idle.Broadcast()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return h, nil
}

// lend adds a caller of takeBack to a handle that is in use, and reports whether it did. Clients
// that read slowly can keep loans of half of the bound's files; the others are read instead.
func (s *Files) lend(h *handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.loans == 0 {
		if s.lent >= max(s.max/2, 1) {
			return false
		}
		s.lent++
	}
	h.loans++
	h.refs++
	return true
}

// takeBack ends a loan.
func (s *Files) takeBack(h *handle) {
	s.mu.Lock()
	if h.loans--; h.loans == 0 {
		s.lent--
	}
	s.mu.Unlock()
	s.release(h)
}

func (s *Files) release(h *handle) {
	s.mu.Lock()
	h.refs--
	last, gone := h.refs == 0, h.gone
	if last && !gone {
		s.listLocked(h)
	}
	s.mu.Unlock()
	if last && gone { // otherwise forget closes it
		_ = h.f.Close() // its bytes are not needed, or were synced before
	}
}

// listLocked puts an unused handle at the front of its list.
func (s *Files) listLocked(h *handle) {
	h.in = &s.clean
	if h.dirty {
		h.in = &s.dirty
	}
	h.at = h.in.PushFront(h)
}

// unlist removes the handle from its list, if it is in one.
func (h *handle) unlist() {
	if h.in != nil {
		h.in.Remove(h.at)
		h.in, h.at = nil, nil
	}
}

// victimsLocked removes unused files from their lists until one more fits. It takes clean ones
// first, and dirty ones only when the set exceeds its bound by half, because syncing them stalls
// the caller. A file that could not be synced stays open: closing it would lose the error.
func (s *Files) victimsLocked() (victims []*handle) {
	take := func(l *list.List, most int) {
		for e := l.Back(); e != nil && len(s.open)-len(victims) >= most; {
			h, prev := e.Value.(*handle), e.Prev()
			if h.err == nil || !h.dirty {
				h.unlist()
				h.busy = true
				victims = append(victims, h)
			}
			e = prev
		}
	}
	take(&s.clean, s.max)
	take(&s.dirty, s.max+s.max/2)
	return victims
}

// evict closes a victim, or lists it again if it could not be synced.
func (s *Files) evict(h *handle) {
	var err error
	if h.dirty { // no other goroutine uses it while it is busy
		err = h.f.Datasync()
	}
	if err == nil {
		_ = h.f.Close() // everything in it is synced
	}
	s.mu.Lock()
	h.busy = false
	if err == nil {
		delete(s.open, h.path)
	} else {
		h.err = fmt.Errorf("sync segment: %w", err)
		s.listLocked(h)
	}
	s.idle.Broadcast()
	s.mu.Unlock()
}

// forget drops the handle of a file that is about to be removed, renamed or replaced. Callers that
// use it may continue.
func (s *Files) forget(path string) {
	s.mu.Lock()
	h := s.idleHandleLocked(path)
	if h == nil {
		s.mu.Unlock()
		return
	}
	h.unlist()
	delete(s.open, path)
	h.gone = true
	unused := h.refs == 0
	s.mu.Unlock()
	if unused {
		_ = h.f.Close() // its bytes are not needed, or were synced before
	}
}

// Close closes all files. No file may be in use.
func (s *Files) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first error
	for path, h := range s.open {
		if err := h.f.Close(); err != nil && first == nil {
			first = fmt.Errorf("close segment: %w", err)
		}
		delete(s.open, path)
	}
	s.clean.Init()
	s.dirty.Init()
	return first
}

// Open returns the number of open files.
func (s *Files) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Files) setDirty(h *handle, dirty bool) {
	s.mu.Lock()
	h.dirty = dirty
	s.mu.Unlock()
}

// latched returns the error of the datasync before closing.
func (s *Files) latched(h *handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.err
}
