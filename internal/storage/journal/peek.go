package journal

import (
	"fmt"
	"path"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Peek returns an error that matches ErrNewer, and names the file, if another version of chronik
// wrote one of the journal's files. It changes nothing, and ignores all other faults, which Open
// reports.
func Peek(fsys vfs.FS, dir string) error {
	seqs, _ := sequences(fsys, dir, 0)
	for _, seq := range seqs {
		name := path.Join(dir, fileName(seq))
		if err := peek(fsys, name, seq); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// peek returns an error only if the file has a header, and none that this version can read.
func peek(fsys vfs.FS, name string, seq uint64) (other error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil //nolint:nilerr // a start reports it
	}
	defer func() { _ = f.Close() }() // it was only read
	b := make([]byte, headerLen)
	for _, at := range []int64{0, secondHeader} {
		if _, err := f.ReadAt(b, at); err != nil {
			continue
		}
		h, ok, err := decodeHeader(b)
		if ok && h.seq == seq {
			return nil
		}
		if other == nil {
			other = err
		}
	}
	return other
}
