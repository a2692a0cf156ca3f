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

// ProducersSuffix ends the name of the file that holds the state of the producers at
// a segment's base. The file goes with the segment; unlike the indexes it is no cache of
// the batches, so that what removes the indexes leaves it.
const ProducersSuffix = ".producers"

// suffixes are those of all files of a segment, indexSuffixes those of its indexes.
var (
	suffixes      = [...]string{LogSuffix, ".index", ".timeindex", ProducersSuffix}
	indexSuffixes = suffixes[1:3]
)

// IsDeleted reports whether a file is left of a segment that left its log.
func IsDeleted(name string) bool { return strings.HasSuffix(name, DeletedSuffix) }

// Retire takes the segment's files away: that of the batches stays as *.deleted,
// the others go. Those who read it go on; who comes later finds
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

// Newest is the timestamp of MaxTimestamp.
func (s *Segment) Newest() (ts int64, err error) {
	ts, _, err = s.MaxTimestamp()
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
