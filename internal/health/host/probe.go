package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// The limits of a probe: it must be meaningful without loading the disk.
const (
	probeBlock = 4096            // bytes written before each fdatasync
	probeSize  = 64 * probeBlock // size of its file
	probeSyncs = 200             // maximum
	probeTime  = 2 * time.Second // maximum, approximately
)

// Probe measures fdatasync on the file system of a directory with the access pattern of a journal:
// it overwrites allocated blocks and syncs each. It writes to an unnamed file of 256 KiB. If the
// file system does not support unnamed files, the error matches errors.ErrUnsupported.
func Probe(ctx context.Context, dir string) (view.Latency, error) {
	f, err := vfs.Scratch(dir)
	if err != nil {
		return view.Latency{}, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	took, err := probe(ctx, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return view.Latency{}, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	return judged(took), nil
}

func probe(ctx context.Context, f vfs.File) (took []time.Duration, err error) {
	if _, err := f.WriteAt(make([]byte, probeSize), 0); err != nil {
		return nil, err
	}
	if err := f.Datasync(); err != nil {
		return nil, err
	}
	block, begin := make([]byte, probeBlock), time.Now()
	for i := int64(0); i < probeSyncs && time.Since(begin) < probeTime; i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		block[0] = byte(i)
		if _, err := f.WriteAt(block, i*probeBlock%probeSize); err != nil {
			return nil, err
		}
		at := time.Now()
		if err := f.Datasync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}

// judged summarizes the measured times.
func judged(took []time.Duration) view.Latency {
	slices.Sort(took)
	n := len(took)
	return view.Latency{Count: uint64(n), Median: took[n/2], P99: took[n*99/100], Over: "in a probe"}
}
