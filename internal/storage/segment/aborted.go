package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrAborted means that the index of a segment's aborted transactions is missing or wrong. It must
// be built from the batches (HoldAborted).
var ErrAborted = errors.New("the index of aborted transactions cannot be used")

// aborted is the index of a segment's aborted transactions. The file has the entries that stored
// describes, and perhaps others behind them, which do not count. Only its owner, the log, knows
// what stored must be: the checkpoint has it.
type aborted struct {
	writing vfs.Mutex // held while the file is written; acquired before mu

	mu      sync.Mutex // guards the following fields; never held across disk I/O
	stored  txnindex.Mark
	pending []txnindex.Entry // of appended batches; the next sync writes them
	keep    bool             // entries in the file stay in memory once they have been read
	kept    []txnindex.Entry // the entries in the file, if held
	held    bool
	unsaved bool // the file has another index than kept
}

// drop ends the time in which the entries of the file stay in memory.
func (a *aborted) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keep = false; !a.unsaved {
		a.held, a.kept = false, nil
	}
}

// Expect sets what the index of a segment that Open returned must contain.
func (s *Segment) Expect(m txnindex.Mark) {
	s.aborted.mu.Lock()
	s.aborted.stored, s.aborted.held, s.aborted.kept = m, false, nil
	s.aborted.mu.Unlock()
}

// AbortedMark returns the mark of the index, with the entries that the next sync writes.
func (s *Segment) AbortedMark() txnindex.Mark {
	s.aborted.mu.Lock()
	defer s.aborted.mu.Unlock()
	m := s.aborted.stored
	if n := len(s.aborted.pending); n > 0 && m.Known() {
		m.Add(txnindex.Encode(nil, s.aborted.pending), n)
	}
	return m
}

// HasAborted reports whether the index has entries that a sync covers, or may have.
func (s *Segment) HasAborted() bool {
	s.aborted.mu.Lock()
	defer s.aborted.mu.Unlock()
	return s.aborted.stored != (txnindex.Mark{})
}

// AddAborted adds the aborted transactions whose markers were appended. The next sync writes them.
func (s *Segment) AddAborted(entries []txnindex.Entry) {
	if len(entries) == 0 {
		return
	}
	s.aborted.mu.Lock()
	s.aborted.pending = append(s.aborted.pending, entries...)
	s.aborted.mu.Unlock()
}

// SyncAborted writes the entries that the file lacks, and makes them durable. It does nothing for a
// segment that is not installed: the file with this name belongs to another one. After an error the
// segment is read-only.
func (s *Segment) SyncAborted() error {
	a := &s.aborted
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	m, entries := a.stored, a.pending
	a.mu.Unlock()
	if s.stage.Load() != live {
		return nil
	}
	if err := s.installAborted(); err != nil {
		return s.latch(err)
	}
	if len(entries) == 0 {
		return nil
	}
	if m.Known() { // otherwise the index must be built from the batches, which have these, too
		b := txnindex.Encode(nil, entries)
		if err := s.writeAborted(b, m.Bytes()); err != nil {
			return s.latch(err)
		}
		m.Add(b, len(entries))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored, a.pending = m, nil
	if a.held {
		a.kept = append(a.kept, entries...)
	}
	return nil
}

// writeAborted writes b at an offset of the file, where it then ends, and makes it durable. The
// caller holds aborted.writing.
func (s *Segment) writeAborted(b []byte, at int64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write index of aborted transactions: %w", err)
		}
	}()
	fsys, created := s.files.fs, false
	f, err := fsys.Open(s.AbortedPath())
	if errors.Is(err, fs.ErrNotExist) {
		created = true
		f, err = fsys.Create(s.AbortedPath())
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is synced, or there is an error already
	if !created {
		if err := f.Truncate(at); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	if err := f.Datasync(); err != nil || !created && at > 0 {
		return err
	}
	return fsys.SyncDir(s.dir) // also of a file that a failed call has made before
}

// Aborted returns the entries of the index that a sync covers, in the order of their markers. The
// caller must not change them. keep says that they stay in memory until the segment is sealed. The
// error matches ErrAborted or ErrReplaced; another one is the system's, and says nothing of the
// index.
func (s *Segment) Aborted(keep bool) ([]txnindex.Entry, error) {
	a := &s.aborted
	for {
		entries, ok := s.AbortedMemory()
		if ok {
			return entries, nil
		}
		a.mu.Lock()
		m := a.stored
		a.mu.Unlock()
		b, err := vfs.ReadFile(s.files.fs, s.AbortedPath())
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			if entries, err = txnindex.Decode(b, m); err != nil {
				err = fmt.Errorf("%w: %s: %w", ErrAborted, s.AbortedPath(), err)
			}
		}
		a.mu.Lock()
		same := a.stored == m
		if same && err == nil && keep {
			a.keep, a.held, a.kept = true, true, entries
		}
		a.mu.Unlock()
		switch {
		case s.replaced.Load():
			return nil, fmt.Errorf("%w: %s", ErrReplaced, path.Base(s.stem()))
		case same && err != nil:
			return nil, err
		case same:
			return entries, nil
		}
	}
}

// AbortedMemory is Aborted without disk access; false if the file would be needed.
func (s *Segment) AbortedMemory() ([]txnindex.Entry, bool) {
	a := &s.aborted
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stored == (txnindex.Mark{}) {
		return nil, true
	}
	return slices.Clip(a.kept), a.held
}

// HoldAborted replaces the index in memory. Until InstallAborted the file has the old one.
func (s *Segment) HoldAborted(entries []txnindex.Entry) {
	a := &s.aborted
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored, a.pending = txnindex.MarkOf(entries), nil
	a.held, a.kept, a.unsaved = true, entries, true
}

// InstallAborted makes the index of HoldAborted durable. After an error the file has neither index,
// and it may be repeated, which the next sync does.
func (s *Segment) InstallAborted() error {
	s.aborted.writing.Lock()
	defer s.aborted.writing.Unlock()
	return s.installAborted()
}

// installAborted is InstallAborted for a caller that holds aborted.writing.
func (s *Segment) installAborted() error {
	a := &s.aborted
	a.mu.Lock()
	entries, unsaved := a.kept[:min(int(a.stored.Count), len(a.kept))], a.unsaved
	a.mu.Unlock()
	if !unsaved {
		return nil
	}
	if len(entries) > 0 {
		if err := s.writeAborted(txnindex.Encode(nil, entries), 0); err != nil {
			return err
		}
	} else if err := s.removeFiles([]string{AbortedSuffix}); err != nil {
		return fmt.Errorf("remove index of aborted transactions: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unsaved = false; !a.keep {
		a.held, a.kept = false, nil
	}
	return nil
}

// TrimAborted cuts the file, of size bytes, to the entries that Expect has named. What follows
// them was never synced.
func (s *Segment) TrimAborted(size int64) error {
	a := &s.aborted
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	m := a.stored
	a.mu.Unlock()
	switch {
	case !m.Known() || size <= m.Bytes():
		return nil
	case m.Count == 0:
		return s.removeFiles([]string{AbortedSuffix})
	}
	f, err := s.files.fs.Open(s.AbortedPath())
	if err != nil {
		return fmt.Errorf("cut index of aborted transactions: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(m.Bytes()); err != nil {
		return fmt.Errorf("cut index of aborted transactions: %w", err)
	}
	return nil
}
