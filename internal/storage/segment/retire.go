package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// DeletedSuffix ends the names of files of a segment that was removed from its log. They are
// deleted after a delay (file.delete.delay.ms), or by the next start.
const DeletedSuffix = ".deleted"

// ProducersSuffix ends the name of the producer snapshot at a segment's base offset. The file is
// deleted with the segment; unlike the indexes it is not a cache of the batches, so removing the
// indexes keeps it.
const ProducersSuffix = ".producers"

// AbortedSuffix ends the name of a segment's index of aborted transactions.
const AbortedSuffix = ".txnindex"

// OffsetsSuffix and TimesSuffix end the names of a segment's indexes by offset and by time.
const (
	OffsetsSuffix = ".index"
	TimesSuffix   = ".timeindex"
)

// suffixes are the suffixes of all files of a segment, indexSuffixes those of its indexes.
var (
	suffixes      = [...]string{LogSuffix, OffsetsSuffix, TimesSuffix, ProducersSuffix, AbortedSuffix}
	indexSuffixes = suffixes[1:3]
)

// Suffixes returns the suffixes of all files of a segment. The caller owns the slice.
func Suffixes() []string { return slices.Clone(suffixes[:]) }

// IsDeleted reports whether name is that of a file that Retire left.
func IsDeleted(name string) bool { return strings.HasSuffix(name, DeletedSuffix) }

// Retire removes the segment's files, except that it renames the file of batches to *.deleted.
// Readers that have the file open continue; later readers find no file. Missing files are not an
// error.
func (s *Segment) Retire() error {
	s.files.forget(s.Path())
	if err := s.files.fs.Rename(s.Path(), s.Path()+DeletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("retire segment: %w", err)
	}
	return s.Remove()
}

// RemoveRetired removes the file that Retire left.
func (s *Segment) RemoveRetired() error {
	if err := s.files.fs.Remove(s.Path() + DeletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove retired segment: %w", err)
	}
	return nil
}

// Newest returns the timestamp of MaxTimestamp.
func (s *Segment) Newest() (ts int64, err error) {
	ts, _, err = s.MaxTimestamp()
	return ts, err
}

// KeepAge gives a compacted segment the modification time of the youngest of its sources: copying
// records does not make them younger.
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

// Written returns when the file of batches was last modified.
func (s *Segment) Written() (time.Time, error) {
	in, err := s.files.fs.Stat(s.Path())
	return in.Modified, err
}
