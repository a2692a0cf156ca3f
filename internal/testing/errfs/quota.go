package errfs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/chronik-io/chronik/internal/vfs"
)

// quota simulates a disk of limited size. A file uses its length: there are no holes, and a removed
// file uses nothing even while it is open.
type quota struct {
	// mu is held while a file grows, so that two files do not get the same space; without a quota
	// it is not held.
	mu    sync.Mutex
	on    bool
	dir   string
	bytes int64
	full  error
	used  int64 // upper bound; exact after measure
}

// SetQuota limits the total size of the files in dir, existing ones included, to bytes. A call that
// would exceed it fails with full, or ENOSPC if that is nil (kernels also use EDQUOT); a write
// first writes the bytes that fit. Space becomes available when files are removed or truncated, or
// by another SetQuota.
func (f *FS) SetQuota(dir string, bytes int64, full error) error {
	if full == nil {
		full = syscall.ENOSPC
	}
	q := &f.full
	q.mu.Lock()
	defer q.mu.Unlock()
	q.on, q.dir, q.bytes, q.full = true, path.Clean(dir), bytes, full
	return q.measure(f.under)
}

// NoQuota removes the limit.
func (f *FS) NoQuota() {
	f.full.mu.Lock()
	defer f.full.mu.Unlock()
	f.full.on = false
}

// space is how far a file may grow.
type space struct {
	end  int64
	full error // why end is less than requested
	done func()
}

// reserve reserves the space that h needs to reach end. The caller must call done after h has
// grown.
func (q *quota) reserve(h *file, end int64) (space, error) {
	q.mu.Lock()
	if !q.on || !q.covers(h.Name()) {
		q.mu.Unlock()
		return space{end: end, done: func() {}}, nil
	}
	s := space{end: end, done: q.mu.Unlock}
	size, err := h.under.Size()
	if err != nil {
		q.mu.Unlock()
		return space{}, err
	}
	growth := end - size
	if growth <= 0 {
		return s, nil
	}
	if q.used+growth > q.bytes {
		if err := q.measure(h.fs.under); err != nil {
			q.mu.Unlock()
			return space{}, err
		}
	}
	if left := max(q.bytes-q.used, 0); left < growth {
		growth, s.full = left, q.full
	}
	q.used += growth
	s.end = size + growth
	return s, nil
}

func (q *quota) covers(name string) bool {
	name = path.Clean(name)
	return q.dir == "/" || q.dir == "." || name == q.dir || strings.HasPrefix(name, q.dir+"/")
}

// measure updates used.
func (q *quota) measure(under vfs.FS) error {
	used, err := usage(under, q.dir)
	q.used = used
	return err
}

// usage returns the total length of all files in dir; 0 if it is missing.
func usage(under vfs.FS, dir string) (int64, error) {
	list, err := under.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, e := range list {
		sum += e.Size
		if e.Dir {
			below, err := usage(under, path.Join(dir, e.Name))
			if err != nil {
				return 0, err
			}
			sum += below
		}
	}
	return sum, nil
}

// free converts the results of the wrapped Free to those under the quota.
func (q *quota) free(under vfs.FS, dir string, available, total uint64) (uint64, uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.on || !q.covers(dir) {
		return available, total, nil
	}
	if err := q.measure(under); err != nil {
		return 0, 0, err
	}
	limit := uint64(max(q.bytes, 0))
	return min(available, limit-min(limit, uint64(q.used))), min(total, limit), nil
}
