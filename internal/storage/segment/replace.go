package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// ErrReplaced says that another segment, with what a compaction left of this one, has taken
// its place. Who was reading looks for that.
var ErrReplaced = errors.New("segment was replaced")

// CleanedSuffix and SwapSuffix end the names of a segment that a compaction makes,
// while it is written, and once it is whole and waits to take the place of others.
const (
	CleanedSuffix = ".cleaned"
	SwapSuffix    = ".swap"
)

// What the file of batches of a segment may be called.
const (
	live int32 = iota
	cleaned
	swap
)

var stages = [...]string{live: LogSuffix, cleaned: LogSuffix + CleanedSuffix, swap: LogSuffix + SwapSuffix}

// ParseSwap returns the base offset in the name of a .log.swap file.
func ParseSwap(name string) (int64, bool) {
	log, ok := strings.CutSuffix(name, SwapSuffix)
	if !ok {
		return 0, false
	}
	return ParseName(log)
}

// IsUnfinished reports whether a name is of a file that a compaction had not come to
// use.
func IsUnfinished(name string) bool {
	return strings.HasSuffix(name, LogSuffix+CleanedSuffix) || strings.HasSuffix(name, LogSuffix+SwapSuffix)
}

// CreateCleaned makes the file of a segment that is to replace others: it is written
// with Append, ended with Seal, and comes to stand in the place of the segment with
// its base offset by Ready and Install.
func CreateCleaned(files *Files, dir string, base int64) (*Segment, error) {
	s := newSegment(files, dir, base)
	s.stage.Store(cleaned)
	h, err := s.create(false)
	if err != nil {
		return nil, err
	}
	files.release(h)
	s.x, s.known, s.appending = &index{}, true, true
	return s, nil
}

// Ready says with the name of the file that the segment is whole. The caller syncs
// the directory.
func (s *Segment) Ready() error { return s.rename(swap) }

// Install gives the file the name of the segment that it replaces, which Replace was
// called for: readers of this one see nothing of it. It may be called again. The
// caller syncs the directory.
func (s *Segment) Install() error {
	if s.stage.Load() == live {
		return nil
	}
	return s.rename(live)
}

// rename changes the name of the file while it is read.
func (s *Segment) rename(to int32) error {
	s.moving.Store(true)
	defer s.moving.Store(false)
	from, name := s.Path(), s.stem()+stages[to]
	if err := s.files.fs.Rename(from, name); err != nil {
		return fmt.Errorf("replace segment: %w", err)
	}
	s.files.forget(name) // of the file that stood there
	s.stage.Store(to)
	s.files.forget(from)
	return nil
}

// Discard removes the file of a segment that was not installed; a missing one is no
// error.
func (s *Segment) Discard() error {
	if s.stage.Load() == live {
		return nil
	}
	s.files.forget(s.Path())
	s.forgetIndex()
	if err := s.files.fs.Remove(s.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove unfinished segment: %w", err)
	}
	return nil
}

// SaveIndex writes the indexes of an installed segment to their files, as far as
// that is possible: they are caches.
func (s *Segment) SaveIndex() { s.saveIndex() }

// Replace makes readers that come from now on fail with ErrReplaced; those who have
// the file open read on. The log lists what replaces the segment already.
func (s *Segment) Replace() {
	s.replaced.Store(true)
	s.forgetIndex()
}

// RemoveIndexes removes the index files, which this segment then never writes again;
// missing ones are no error.
func (s *Segment) RemoveIndexes() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.unindexed = true
	if err := s.removeFiles(indexSuffixes); err != nil {
		return fmt.Errorf("remove index of segment: %w", err)
	}
	return nil
}

// removeFiles removes files of the segment; missing ones are no error.
func (s *Segment) removeFiles(suffixes []string) error {
	for _, suffix := range suffixes {
		if err := s.files.fs.Remove(s.stem() + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// FinishSwap gives a file that is found as .log.swap its place, and removes the
// indexes of what stood there. It is repeated where a crash came between. The caller
// syncs the directory.
func FinishSwap(files *Files, dir string, base int64, found bool) error {
	s := newSegment(files, dir, base)
	if err := s.RemoveIndexes(); err != nil || !found {
		return err
	}
	s.stage.Store(swap)
	return s.rename(live)
}

// open opens the file of batches under the name that it has.
func (s *Segment) open() (*handle, error) {
	for {
		at := s.stage.Load()
		h, err := s.files.acquire(s.stem()+stages[at], false)
		moving := s.moving.Load()
		replaced := s.replaced.Load()
		switch {
		case !replaced && s.stage.Load() == at && (err == nil || !moving || !errors.Is(err, fs.ErrNotExist)):
			return h, err
		case err == nil:
			s.files.release(h)
		case !replaced && moving: // the name changes this moment
			time.Sleep(50 * time.Microsecond)
		}
		if replaced {
			return nil, fmt.Errorf("%w: %s", ErrReplaced, path.Base(s.stem()))
		}
	}
}

// Entries returns how many entries the offset index has.
func (s *Segment) Entries() int {
	x, _ := s.indexes()
	return len(x.offsets)
}
