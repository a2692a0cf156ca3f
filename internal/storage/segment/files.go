package segment

import (
	"container/list"
	"fmt"
	"sync"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Files keeps at most a bounded number of segment files open, closing the least
// recently used one. A file with bytes that were written and not synced is
// synced before it is closed: the kernel forgets an error of the write-back that
// nobody had the file open to hear.
type Files struct {
	fs      vfs.FS
	max     int
	indexes indexCache

	mu   sync.Mutex
	idle *sync.Cond // a file is no longer busy
	open map[string]*handle
	// Handles that nobody uses, most recently used in front: those with bytes that
	// are not synced, and the others. To find a victim must not cost a look at
	// every open file.
	clean, dirty list.List
}

// handle is an open file in use by refs callers.
type handle struct {
	f    vfs.File
	path string

	// Guarded by Files.mu.
	refs  int
	busy  bool       // is being opened or closed, without the lock; others wait
	dirty bool       // written since the last datasync
	err   error      // of a datasync before closing; the file is never synced again
	gone  bool       // forgotten: the last user closes it
	in    *list.List // clean or dirty; nil while it is in use or busy
	at    *list.Element
}

// NewFiles returns a set that keeps about max files open; those in use may
// exceed it.
func NewFiles(fs vfs.FS, max int) *Files {
	s := &Files{fs: fs, max: max, open: map[string]*handle{}, indexes: indexCache{bound: 16 << 20}}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// idleHandleLocked returns the handle of a path once nobody opens or closes it; nil
// if it isn't open.
func (s *Files) idleHandleLocked(path string) *handle {
	h := s.open[path]
	for h != nil && h.busy {
		s.idle.Wait()
		h = s.open[path]
	}
	return h
}

// acquire opens a file or finds it open. Release must follow.
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

func (s *Files) release(h *handle) {
	s.mu.Lock()
	h.refs--
	last, gone := h.refs == 0, h.gone
	if last && !gone {
		s.listLocked(h)
	}
	s.mu.Unlock()
	if last && gone { // otherwise whoever forgets it closes it
		_ = h.f.Close() // its bytes are not wanted any more, or were synced before
	}
}

// listLocked puts a handle that nobody uses in front of its list.
func (s *Files) listLocked(h *handle) {
	h.in = &s.clean
	if h.dirty {
		h.in = &s.dirty
	}
	h.at = h.in.PushFront(h)
}

// unlist takes the handle out of its list, if it stands in one.
func (h *handle) unlist() {
	if h.in != nil {
		h.in.Remove(h.at)
		h.in, h.at = nil, nil
	}
}

// victimsLocked takes files that nobody uses out of their lists until one more
// fits: clean ones, and dirty ones only once the set has grown by half, since to
// sync them stalls the caller. One that could not be synced stays open: whoever
// closes it would lose the error.
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

// evict closes a victim, or puts it back where it could not be synced.
func (s *Files) evict(h *handle) {
	var err error
	if h.dirty { // nobody else touches it while it is busy
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

// forget lets go of a file that is about to be removed, renamed or replaced.
// Those who use it may go on.
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
		_ = h.f.Close() // its bytes are not wanted any more, or were synced before
	}
}

// Close closes all files. Nobody may use one.
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

// latched returns the error of a datasync before closing.
func (s *Files) latched(h *handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.err
}
