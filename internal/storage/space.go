package storage

import (
	"fmt"
	"math"
)

// Space asks the file system of the directory for the bytes that may still be
// written to it, and for its size.
func (d *Dir) Space() (available, total int64, err error) {
	free, size, err := d.opt.FS.Free(d.path)
	if err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", d.path, err)
	}
	return int64(min(free, math.MaxInt64)), int64(min(size, math.MaxInt64)), nil
}
