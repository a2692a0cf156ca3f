package limits

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/chronik-io/chronik/internal/bench/report"
	"github.com/chronik-io/chronik/internal/cli"
)

// Bounds of a disk measurement. DefaultFileSize is enough for a write to come
// round to a block only after the device has forgotten it.
const (
	DefaultFileSize = 256 << 20
	largestFile     = 16 << 30
	longestSync     = int64(time.Hour) // of what a histogram holds; a longer one is an error
)

// Sizes that are measured: what one small request writes, and two groups.
const (
	blockSize = 4 << 10
	smallSize = 64 << 10
	groupSize = 1 << 20
)

// DiskConfig says where and how long to measure.
type DiskConfig struct {
	// Dir is a directory on the disk in question. The files in it are removed
	// in the end.
	Dir string `json:"dir"`
	// Duration is the time spent writing and syncing for each row.
	Duration time.Duration `json:"duration_ns"`
	// FileSize bounds each of the two files in bytes, 1 MiB to 16 GiB; 0 is
	// DefaultFileSize.
	FileSize int64 `json:"file_size_bytes"`
}

// DiskResult is what a disk can do.
type DiskResult struct {
	Config DiskConfig `json:"config"`
	// Call is the system call that synced: fdatasync, or fsync where there is none.
	Call string    `json:"call"`
	Rows []DiskRow `json:"rows"`
}

// DiskRow is one pattern of writes, each followed by a sync.
type DiskRow struct {
	// Size is the bytes of each write.
	Size int `json:"size_bytes"`
	// Pattern is Written for blocks that were written before, Appending for a
	// file that grows.
	Pattern string `json:"pattern"`
	Syncs   int64  `json:"syncs"`
	// Elapsed is the time spent in writes and syncs, without making files.
	Elapsed time.Duration `json:"elapsed_ns"`
	// BytesPerSecond is what was written over Elapsed.
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Sync is the time of the sync alone, Both that of write and sync.
	Sync report.Latency `json:"sync"`
	Both report.Latency `json:"write_and_sync"`
}

// Patterns of writing.
const (
	Written   = "written"
	Appending = "appending"
)

// Disk measures the disk under c.Dir, at most c.Duration and a few seconds of
// preparation a row.
func Disk(ctx context.Context, c DiskConfig) (*DiskResult, error) {
	return disk(ctx, c, datasync)
}

func disk(ctx context.Context, c DiskConfig, sync func(*os.File) error) (_ *DiskResult, err error) {
	if c.FileSize == 0 {
		c.FileSize = DefaultFileSize
	}
	if c.FileSize < groupSize || c.FileSize > largestFile {
		return nil, cli.Usage("--file-size: %d is not within %d and %d", c.FileSize, groupSize, int64(largestFile))
	}
	if c.Duration <= 0 {
		return nil, cli.Usage("--disk-duration: must be above zero, not %v", c.Duration)
	}
	dir, err := os.MkdirTemp(c.Dir, "chronik-bench-")
	if err != nil {
		return nil, cli.Usage("--dir: make a directory to measure in: %w; name one that is there and writable", err)
	}
	defer func() {
		if e := os.RemoveAll(dir); e != nil {
			err = errors.Join(err, fmt.Errorf("remove what was measured with: %w", e))
		}
	}()
	m := &diskRun{config: c, dir: dir, sync: sync, data: make([]byte, groupSize)}
	// Zeros are stored as nothing by some file systems and devices.
	if _, err := rand.Read(m.data); err != nil {
		return nil, fmt.Errorf("random bytes to write: %w", err)
	}
	r := &DiskResult{Config: c, Call: syncName}
	written, err := m.written(ctx)
	if err != nil {
		return nil, err
	}
	defer written.Close()
	for _, size := range []int{blockSize, smallSize, groupSize} {
		over, err := m.overwrite(ctx, written, size)
		if err != nil {
			return nil, err
		}
		grow, err := m.grow(ctx, size)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, over, grow)
	}
	return r, nil
}

// diskRun is one measurement on its way.
type diskRun struct {
	config DiskConfig
	dir    string
	sync   func(*os.File) error
	data   []byte
}

// written makes a file of which every block was written and synced.
func (m *diskRun) written(ctx context.Context) (*os.File, error) {
	f, err := m.create(Written)
	if err != nil {
		return nil, err
	}
	for at := int64(0); at < m.config.FileSize; at += int64(len(m.data)) {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		n := min(int64(len(m.data)), m.config.FileSize-at)
		if _, err := f.WriteAt(m.data[:n], at); err != nil {
			return nil, errors.Join(fmt.Errorf("fill %s: %w", f.Name(), err), f.Close())
		}
	}
	if err := f.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("sync %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

func (m *diskRun) create(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(m.dir, name), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a file to measure with: %w", err)
	}
	return f, nil
}

// overwrite measures writes of size bytes one after another over f's blocks,
// from the start again at its end.
func (m *diskRun) overwrite(ctx context.Context, f *os.File, size int) (DiskRow, error) {
	r := newRow()
	at := int64(0)
	for r.elapsed < m.config.Duration {
		if err := ctx.Err(); err != nil {
			return DiskRow{}, err
		}
		if at+int64(size) > m.config.FileSize {
			at = 0
		}
		if err := m.once(f, at, size, r); err != nil {
			return DiskRow{}, err
		}
		at += int64(size)
	}
	return r.row(size, Written), nil
}

// grow measures writes at the end of a file, and starts a new one outside of the
// measured time when it has reached its size.
func (m *diskRun) grow(ctx context.Context, size int) (DiskRow, error) {
	r := newRow()
	for r.elapsed < m.config.Duration {
		if err := m.growOne(ctx, size, r); err != nil {
			return DiskRow{}, err
		}
	}
	return r.row(size, Appending), nil
}

func (m *diskRun) growOne(ctx context.Context, size int, r *rowRun) error {
	f, err := m.create(Appending)
	if err != nil {
		return err
	}
	defer f.Close()
	// What making the file left to do is not the first write's.
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	for at := int64(0); r.elapsed < m.config.Duration && at+int64(size) <= m.config.FileSize; at += int64(size) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.once(f, at, size, r); err != nil {
			return err
		}
	}
	return nil
}

// once writes and syncs, and takes the times.
func (m *diskRun) once(f *os.File, at int64, size int, r *rowRun) error {
	begin := time.Now()
	if _, err := f.WriteAt(m.data[:size], at); err != nil {
		return fmt.Errorf("write %d bytes at %d of %s: %w", size, at, f.Name(), err)
	}
	wrote := time.Now()
	if err := m.sync(f); err != nil {
		return fmt.Errorf("%s of %s: %w", syncName, f.Name(), err)
	}
	end := time.Now()
	r.elapsed += end.Sub(begin)
	r.syncs++
	if err := r.sync.RecordValue(int64(end.Sub(wrote))); err != nil {
		return fmt.Errorf("record %v: %w", end.Sub(wrote), err)
	}
	if err := r.both.RecordValue(int64(end.Sub(begin))); err != nil {
		return fmt.Errorf("record %v: %w", end.Sub(begin), err)
	}
	return nil
}

// rowRun is a row on its way.
type rowRun struct {
	elapsed    time.Duration
	syncs      int64
	sync, both *hdrhistogram.Histogram
}

func newRow() *rowRun {
	return &rowRun{sync: hdrhistogram.New(1, longestSync, 3), both: hdrhistogram.New(1, longestSync, 3)}
}

func (r *rowRun) row(size int, pattern string) DiskRow {
	return DiskRow{Size: size, Pattern: pattern, Syncs: r.syncs, Elapsed: r.elapsed,
		BytesPerSecond: float64(r.syncs) * float64(size) / r.elapsed.Seconds(),
		Sync:           report.LatencyOf(r.sync, time.Nanosecond), Both: report.LatencyOf(r.both, time.Nanosecond)}
}
