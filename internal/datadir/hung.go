package datadir

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/storage"
)

// Patience is how long the disk of a log directory may take to read a few small files before
// the broker starts without the directory.
const Patience = 15 * time.Second

// FindHung reads a few small files of every log directory at once. A directory whose disk does not
// answer is hung: it stays out of use until the next start, and no later step may touch it, because
// a blocked system call can't be canceled. At least one directory must answer, and the metadata
// must be there: otherwise the start waits, because what the hung directory holds decides whether
// this broker may begin with empty metadata. patience is Patience except in tests; waits receives
// what the start waits for.
func (d *Dirs) FindHung(ctx context.Context, patience time.Duration, waits func(what string)) error {
	if len(d.locations) == 1 {
		return nil
	}
	answers, silent := make(chan int, len(d.locations)), map[int]bool{}
	for i, p := range d.locations {
		silent[i] = true
		go func() { // it outlives the start if the disk hangs
			_ = storage.Peek(d.fs, p) // the next step reports the error
			_, _ = storage.Used(d.fs, p)
			answers <- i
		}()
	}
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for len(silent) > 0 {
		select {
		case i := <-answers:
			delete(silent, i)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			var names []string
			for i := range d.locations {
				if silent[i] {
					names = append(names, d.locations[i].Path)
				}
			}
			if len(silent) == len(d.locations) || !d.hasMetadata() {
				waits("waiting for the disk of " + strings.Join(names, ", "))
				continue
			}
			for i := range silent {
				d.locations[i].Hung = true
			}
			d.log.Error("log directories hang: the broker starts without them; check their disks, then restart it", zap.Strings("dirs", names),
				zap.Duration("after", patience))
			return nil
		}
	}
	return nil
}

// Fresh reports whether no broker has written its metadata to the data directory yet, as in one
// that does not exist.
func (d *Dirs) Fresh() (bool, error) {
	there, err := raftstore.Exists(d.fs, d.Metadata())
	if err != nil {
		return false, d.Error(err)
	}
	return !there, nil
}

// hasMetadata reports whether the metadata directory that this start will use is there.
func (d *Dirs) hasMetadata() bool {
	there, err := raftstore.Exists(d.fs, d.Metadata())
	return there && err == nil
}

// Answering returns the log directories whose disks answer.
func (d *Dirs) Answering() (all []storage.Location) {
	for _, p := range d.locations {
		if !p.Hung {
			all = append(all, p)
		}
	}
	return all
}
