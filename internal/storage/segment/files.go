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
	fs  vfs.FS
	max int

	mu   sync.Mutex
	open map[string]*handle
	lru  list.List // of *handle that nobody uses, most recently used in front
}

// handle is an open file in use by refs callers.
type handle struct {
	f     vfs.File
	path  string
	refs  int
	dirty bool // guarded by Files.mu: written since the last datasync
	err   error
	at    *list.Element
}

// NewFiles returns a set that keeps about max files open; those in use may
// exceed it.
func NewFiles(fs vfs.FS, max int) *Files {
	return &Files{fs: fs, max: max, open: map[string]*handle{}}
}

// FS is the file system below.
func (s *Files) FS() vfs.FS { return s.fs }

// acquire opens a file or finds it open. Release must follow.
func (s *Files) acquire(path string, create bool) (*handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.open[path]
	if h == nil {
		if err := s.evictLocked(); err != nil {
			return nil, err
		}
		var f vfs.File
		var err error
		if create {
			f, err = s.fs.Create(path)
		} else {
			f, err = s.fs.Open(path)
		}
		if err != nil {
			return nil, err
		}
		h = &handle{f: f, path: path}
		s.open[path] = h
	}
	if h.at != nil {
		s.lru.Remove(h.at)
		h.at = nil
	}
	h.refs++
	return h, nil
}

func (s *Files) release(h *handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.refs--
	if h.refs == 0 && s.open[h.path] == h {
		h.at = s.lru.PushFront(h)
	}
}

// evictLocked closes clean files that nobody uses until one more fits; if there
// are only dirty ones it lets the set grow by half before it syncs one, since that
// stalls the caller.
func (s *Files) evictLocked() error {
	for e := s.lru.Back(); e != nil && len(s.open) >= s.max; {
		h, prev := e.Value.(*handle), e.Prev()
		if h.dirty && len(s.open) >= s.max+s.max/2 {
			if h.err = h.f.Datasync(); h.err == nil {
				h.dirty = false
			}
		}
		if !h.dirty {
			s.lru.Remove(e)
			delete(s.open, h.path)
			if err := h.f.Close(); err != nil {
				return fmt.Errorf("close segment: %w", err)
			}
		}
		e = prev
	}
	return nil
}

// forget closes a file that is about to be removed, renamed or replaced. Nobody
// may use it.
func (s *Files) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.open[path]; h != nil {
		if h.at != nil {
			s.lru.Remove(h.at)
		}
		delete(s.open, path)
		if h.refs == 0 {
			_ = h.f.Close() // its bytes are not wanted any more, or were synced before
		}
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
	s.lru.Init()
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

// latched returns the error of a datasync that eviction made.
func (s *Files) latched(h *handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.err
}
