package daemon

import (
	"context"
	"path"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/storage"
)

// diskPatience is how long the disk of a log directory may take to read a few small files before
// the broker starts without the directory.
const diskPatience = 15 * time.Second

// findHung reads a few small files of every log directory at once. A directory whose disk does not
// answer is hung: it stays out of use until the next start, and no later step may touch it, because
// a blocked system call can't be canceled. At least one directory must answer, and the metadata
// must be there: otherwise the start waits, because what the hung directory holds decides whether
// this broker may begin with empty metadata.
func (b *Broker) findHung(ctx context.Context, r *components) error {
	r.locations = locations(&r.conf)
	if len(r.locations) == 1 {
		return nil
	}
	answers, silent := make(chan int, len(r.locations)), map[int]bool{}
	for i, p := range r.locations {
		silent[i] = true
		go func() { // it outlives the start if the disk hangs
			_ = storage.Peek(b.fs, p) // the next step reports the error
			storage.Used(b.fs, p)
			answers <- i
		}()
	}
	patience := time.NewTicker(b.diskPatience)
	defer patience.Stop()
	for len(silent) > 0 {
		select {
		case i := <-answers:
			delete(silent, i)
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			var names []string
			for i := range r.locations {
				if silent[i] {
					names = append(names, r.locations[i].Path)
				}
			}
			if len(silent) == len(r.locations) || !b.hasMetadata() {
				b.health.Enter("waiting for the disk of " + strings.Join(names, ", "))
				continue
			}
			for i := range silent {
				r.locations[i].Hung = true
			}
			b.log.Error("log directories hang: the broker starts without them", zap.Strings("dirs", names),
				zap.Duration("after", b.diskPatience))
			return nil
		}
	}
	return nil
}

// hasMetadata reports whether the metadata directory that this start will use is there.
func (b *Broker) hasMetadata() bool {
	there, err := raftstore.Exists(b.fs, path.Join(b.cfg.DataDir, metadataDir))
	return there && err == nil
}

// answering returns the log directories whose disks answer.
func (r *components) answering() (all []storage.Location) {
	for _, p := range r.locations {
		if !p.Hung {
			all = append(all, p)
		}
	}
	return all
}
