package limits

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Limits of a disk measurement. DefaultFileSize is large enough for a device to have dropped a
// block from its cache when a write returns to it.
const (
	DefaultFileSize = 256 << 20
	largestFile     = 16 << 30
	longestSync     = int64(time.Hour) // of a histogram; a longer sync is an error
)

// Sizes that are measured: the write of one small request, and two group commits.
const (
	blockSize = 4 << 10
	smallSize = 64 << 10
	groupSize = 1 << 20
)

// DiskConfig configures Disk.
type DiskConfig struct {
	// Dir is a directory on the disk. The files in it are removed at the end.
	Dir string `json:"dir"`
	// Duration is the time spent writing and syncing for each row.
	Duration time.Duration `json:"duration_ns"`
	// FileSize is the maximum size of each of the two files in bytes, 1 MiB to 16 GiB; 0 means
	// DefaultFileSize.
	FileSize int64 `json:"file_size_bytes"`
	// Sizes are those of the writes in bytes, each 1 to 1 MiB; if empty, 4 KiB, 64 KiB and 1 MiB.
	Sizes []int `json:"sizes_bytes,omitempty"`
	// Pattern is Written or Appending; if empty, both are measured.
	Pattern string `json:"pattern,omitempty"`
	// Rate is how many writes begin each second, at most 100,000. Their times count from the moment
	// at which they were due, so that a slow sync also delays those behind it. 0: one write after
	// the other.
	Rate float64 `json:"rate,omitempty"`
}

// fastest is the largest rate of writes per second.
const fastest = 100_000

// diskRates returns the accepted rates of writes per second.
func diskRates() cli.Bounds[float64] {
	return cli.Between(settings.Slowest, fastest).Or(0, "one after the other")
}

// check fills in the defaults and returns an error for an invalid setting.
func (c *DiskConfig) check() error {
	c.FileSize = cmp.Or(c.FileSize, DefaultFileSize)
	if len(c.Sizes) == 0 {
		c.Sizes = []int{blockSize, smallSize, groupSize}
	}
	switch {
	case c.FileSize < groupSize || c.FileSize > largestFile:
		return cli.Usage("--file-size: %d is not between %d and %d", c.FileSize, groupSize, int64(largestFile))
	case c.Duration <= 0:
		return cli.Usage("--disk-duration: must be above zero, not %v", c.Duration)
	case c.Pattern != "" && c.Pattern != Written && c.Pattern != Appending:
		return cli.Usage("--disk-pattern: %q is neither %s nor %s", c.Pattern, Written, Appending)
	}
	var x settings.Checks
	if x.Rate("disk-rate", c.Rate, diskRates()); x.Err() != nil {
		return x.Err()
	}
	for _, size := range c.Sizes {
		if size < 1 || size > groupSize {
			return cli.Usage("--disk-sizes: %d is not between 1 and %d", size, groupSize)
		}
	}
	return nil
}

// DiskResult is the result of Disk.
type DiskResult struct {
	Config DiskConfig `json:"config"`
	// Call is the system call that synced: fdatasync, or fsync if there is none.
	Call string    `json:"call"`
	Rows []DiskRow `json:"rows"`
}

// DiskRow is one pattern of writes, each followed by a sync.
type DiskRow struct {
	// Size is the size of each write in bytes.
	Size int `json:"size_bytes"`
	// Pattern is Written for blocks that were written before, Appending for a file that grows.
	Pattern string `json:"pattern"`
	Syncs   int64  `json:"syncs"`
	// Elapsed is the time spent in writes and syncs, without creating files; with a rate, all time.
	Elapsed time.Duration `json:"elapsed_ns"`
	// BytesPerSecond is the written bytes divided by Elapsed.
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Sync is the time of the sync alone, Both that of write and sync, with a rate from the moment
	// at which the write was due.
	Sync results.Latency `json:"sync"`
	Both results.Latency `json:"write_and_sync"`
}

// Patterns of writes.
const (
	Written   = "written"
	Appending = "appending"
)

// Disk measures the disk of c.Dir. Each row takes c.Duration and a few seconds of preparation at
// most.
func Disk(ctx context.Context, c DiskConfig) (*DiskResult, error) {
	return disk(ctx, c, datasync)
}

func disk(ctx context.Context, c DiskConfig, sync func(*os.File) error) (_ *DiskResult, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "chronik-bench-")
	if err != nil {
		return nil, cli.Usage("--dir: create a directory for the measurement: %w; name an existing, writable directory", err)
	}
	defer func() {
		if e := os.RemoveAll(dir); e != nil {
			err = errors.Join(err, fmt.Errorf("remove the files of the measurement: %w", e))
		}
	}()
	m := &diskRun{config: c, dir: dir, sync: sync, data: make([]byte, groupSize)}
	// Some file systems and devices do not store zeros.
	if _, err := rand.Read(m.data); err != nil {
		return nil, fmt.Errorf("random bytes to write: %w", err)
	}
	r := &DiskResult{Config: c, Call: syncName}
	patterns := []func(context.Context, int) (DiskRow, error){m.grow}
	if c.Pattern != Appending {
		written, err := m.written(ctx)
		if err != nil {
			return nil, err
		}
		defer written.Close()
		again := func(ctx context.Context, size int) (DiskRow, error) { return m.overwrite(ctx, written, size) }
		patterns = slices.Insert(patterns, 0, again)
	}
	if c.Pattern == Written {
		patterns = patterns[:1]
	}
	for _, size := range c.Sizes {
		for _, measure := range patterns {
			row, err := measure(ctx, size)
			if err != nil {
				return nil, err
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r, nil
}

// diskRun is a measurement in progress.
type diskRun struct {
	config DiskConfig
	dir    string
	sync   func(*os.File) error
	data   []byte
}

// written creates a file with every block written and synced.
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
		return nil, fmt.Errorf("create a file for the measurement: %w", err)
	}
	return f, nil
}

// overwrite measures consecutive writes of size bytes over f's blocks, which start again at the end
// of f.
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
		if err := m.once(ctx, f, at, size, r); err != nil {
			return DiskRow{}, err
		}
		at += int64(size)
	}
	return r.row(size, Written), nil
}

// grow measures writes at the end of a file. When the file has its maximum size, grow starts a new
// one outside of the measured time.
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
	// The first write must not pay for the creation of the file.
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	for at := int64(0); r.elapsed < m.config.Duration && at+int64(size) <= m.config.FileSize; at += int64(size) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.once(ctx, f, at, size, r); err != nil {
			return err
		}
	}
	return nil
}

// once waits until a write is due, writes and syncs, and records the times.
func (m *diskRun) once(ctx context.Context, f *os.File, at int64, size int, r *rowRun) error {
	begin := time.Now()
	if m.config.Rate > 0 {
		if r.syncs == 0 {
			r.first, r.due = begin, begin
		}
		if !pause.Wait(ctx.Done(), r.due.Sub(begin)) {
			return context.Cause(ctx)
		}
		begin, r.due = r.due, r.due.Add(time.Duration(float64(time.Second)/m.config.Rate))
	}
	if _, err := f.WriteAt(m.data[:size], at); err != nil {
		return fmt.Errorf("write %d bytes at %d of %s: %w", size, at, f.Name(), err)
	}
	wrote := time.Now()
	if err := m.sync(f); err != nil {
		return fmt.Errorf("%s of %s: %w", syncName, f.Name(), err)
	}
	end := time.Now()
	if r.elapsed += end.Sub(begin); m.config.Rate > 0 {
		r.elapsed = end.Sub(r.first)
	}
	r.syncs++
	if err := r.sync.RecordValue(int64(end.Sub(wrote))); err != nil {
		return fmt.Errorf("record %v: %w", end.Sub(wrote), err)
	}
	if err := r.both.RecordValue(int64(end.Sub(begin))); err != nil {
		return fmt.Errorf("record %v: %w", end.Sub(begin), err)
	}
	return nil
}

// rowRun is a row in progress.
type rowRun struct {
	elapsed    time.Duration
	syncs      int64
	sync, both *hdrhistogram.Histogram
	first, due time.Time // of writes at a rate: when the first one was due, and the next one is
}

func newRow() *rowRun {
	return &rowRun{sync: hdrhistogram.New(1, longestSync, 3), both: hdrhistogram.New(1, longestSync, 3)}
}

func (r *rowRun) row(size int, pattern string) DiskRow {
	return DiskRow{Size: size, Pattern: pattern, Syncs: r.syncs, Elapsed: r.elapsed,
		BytesPerSecond: float64(r.syncs) * float64(size) / r.elapsed.Seconds(),
		Sync:           results.LatencyOf(r.sync, time.Nanosecond), Both: results.LatencyOf(r.both, time.Nanosecond)}
}
