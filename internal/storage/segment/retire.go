package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// DeletedSuffix ends the names of files of a segment that left its log and are
// removed after a while (file.delete.delay.ms), or by the next start.
const DeletedSuffix = ".deleted"

// ProducersSuffix ends the name of the file with the producer state as of the segment's
// base offset. A compaction does not change that, so the file stays where the indexes go.
const ProducersSuffix = ".producers"

// suffixes of a segment's files, and of those that are made from the batches.
var (
	suffixes = [...]string{LogSuffix, ".index", ".timeindex", ProducersSuffix}
	indexes  = suffixes[1:3]
)

// IsDeleted says whether a file is left of a segment that left its log.
func IsDeleted(name string) bool { return strings.HasSuffix(name, DeletedSuffix) }

// Retire takes the segment's files away: that of the batches stays as *.deleted,
// the indexes, which are caches, go. Those who read it go on; who comes later finds
// no file. Missing files are no error.
func (s *Segment) Retire() error {
	s.files.forget(s.Path())
	if err := s.files.fs.Rename(s.Path(), s.Path()+DeletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("retire segment: %w", err)
	}
	return s.Remove()
}

// RemoveRetired removes what Retire left.
func (s *Segment) RemoveRetired() error {
	if err := s.files.fs.Remove(s.Path() + DeletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove retired segment: %w", err)
	}
	return nil
}

// Newest is the timestamp of MaxTimestamp. It keeps no index in memory that was not
// there before: a look at the oldest segment of every log must not load them all.
func (s *Segment) Newest() (ts int64, err error) {
	s.mu.Lock()
	loaded := s.x != nil
	s.mu.Unlock()
	ts, _, err = s.MaxTimestamp()
	if !loaded {
		s.mu.Lock()
		if s.x != nil && s.x.saved() && s.stage.Load() == live {
			s.x = nil
		}
		s.mu.Unlock()
	}
	return ts, err
}

// KeepAge has Written say of a compacted segment what it says of the youngest of those
// that it is made of: records don't become younger by being copied.
func (s *Segment) KeepAge(of []*Segment) error {
	var youngest time.Time
	for _, x := range of {
		at, err := x.Written()
		if err != nil {
			return err
		}
		if at.After(youngest) {
			youngest = at
		}
	}
	return s.files.fs.SetModified(s.Path(), youngest)
}

// Written returns when the file of batches last changed.
func (s *Segment) Written() (time.Time, error) {
	in, err := s.files.fs.Stat(s.Path())
	return in.Modified, err
}
