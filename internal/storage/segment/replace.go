package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/storage/statefile"
)

// ErrReplaced means that a compacted segment has taken the place of this one, or that the segment
// was truncated during the call. Readers must find the current segment and repeat the read.
var ErrReplaced = errors.New("segment was replaced")

// CleanedSuffix and SwapSuffix end the names of a segment that a compaction writes: while it is
// being written, and when it is complete and about to replace others.
const (
	CleanedSuffix = ".cleaned"
	SwapSuffix    = ".swap"
)

// Names of a segment's file of batches.
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

// IsUnfinished reports whether name is that of a file that a compaction had not installed, or of a
// producer snapshot that was not complete.
func IsUnfinished(name string) bool {
	return strings.HasSuffix(name, LogSuffix+CleanedSuffix) || strings.HasSuffix(name, LogSuffix+SwapSuffix) ||
		strings.HasSuffix(name, ProducersSuffix+statefile.Temporary)
}

// CreateCleaned creates the file of a segment that will replace others. Append writes it, Seal
// completes it, and Ready and Install put it in the place of the segment with its base offset.
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

// Ready marks the segment as complete by the name of its file. The caller must sync the directory.
func (s *Segment) Ready() error { return s.rename(swap) }

// Install gives the file the name of the segment that it replaces. The caller must have called
// Replace for that segment, and must sync the directory afterwards. Readers of this segment are not
// affected. Install may be repeated.
func (s *Segment) Install() error {
	if s.stage.Load() == live {
		return nil
	}
	return s.rename(live)
}

// rename changes the name of the file while readers use it.
func (s *Segment) rename(to int32) error {
	s.renaming.Store(true)
	defer s.renaming.Store(false)
	from, name := s.Path(), s.stem()+stages[to]
	if err := s.files.fs.Rename(from, name); err != nil {
		return fmt.Errorf("replace segment: %w", err)
	}
	s.files.forget(name) // of the file that had this name
	s.stage.Store(to)
	s.files.forget(from)
	return nil
}

// Discard removes the file of a segment that was not installed. A missing file is not an error.
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

// Replace makes later reads fail with ErrReplaced; readers that have the file open continue. The
// log must already list the segments that replace this one.
func (s *Segment) Replace() {
	s.replaced.Store(true)
	s.forgetIndex()
}

// RemoveIndexes removes the index files, which this segment then never writes again. Missing files
// are not an error.
func (s *Segment) RemoveIndexes() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.unindexed = true
	if err := s.removeFiles(indexSuffixes); err != nil {
		return fmt.Errorf("remove index of segment: %w", err)
	}
	return nil
}

// removeFiles removes files of the segment. Missing files are not an error.
func (s *Segment) removeFiles(suffixes []string) error {
	for _, suffix := range suffixes {
		if err := s.files.fs.Remove(s.stem() + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// FinishSwap completes a swap during recovery. It removes the index files of the replaced segment
// and, if found, renames the .log.swap file. After a crash it may be repeated. The caller must sync
// the directory.
func FinishSwap(files *Files, dir string, base int64, found bool) error {
	s := newSegment(files, dir, base)
	if err := s.RemoveIndexes(); err != nil || !found {
		return err
	}
	s.stage.Store(swap)
	return s.rename(live)
}

// open opens the file of batches for reading, or returns the open one.
func (s *Segment) open() (*handle, error) {
	return current(s, func(name string) (*handle, error) { return s.files.acquire(name, false) }, s.files.release)
}

// current opens the file of batches under its current name. After Replace another segment may have
// that name, so it returns ErrReplaced then.
func current[F any](s *Segment, open func(name string) (F, error), release func(F)) (none F, err error) {
	for {
		at := s.stage.Load()
		f, err := open(s.stem() + stages[at])
		moving := s.renaming.Load()
		replaced := s.replaced.Load()
		switch {
		case !replaced && s.stage.Load() == at && (err == nil || !moving || !errors.Is(err, fs.ErrNotExist)):
			return f, err
		case err == nil:
			release(f)
		case !replaced && moving: // the file is being renamed
			time.Sleep(50 * time.Microsecond)
		}
		if replaced {
			return none, fmt.Errorf("%w: %s", ErrReplaced, path.Base(s.stem()))
		}
	}
}

// Entries returns the number of entries in the offset index.
func (s *Segment) Entries() int {
	x, _ := s.indexes()
	return len(x.offsets)
}
