package storage

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Options are what the log directories of a broker share.
type Options struct {
	FS vfs.FS
	// Holder is what the lock file says of who uses the directory: "pid 123".
	Holder string
	Logger *zap.Logger // nil: silent
	// Metrics may be nil.
	Metrics *metrics.Storage
	// DeferredBytes bounds the memory of a directory for record bytes that are
	// not in segments yet, and for the cache of those that are. Internal topics may take an
	// eighth more. Default 64 MiB.
	DeferredBytes int64
	// JournalFileSize is the size of a journal file, and JournalBytes the bound of all
	// of them, which bounds recovery. 0 follows from the disk; see diskguard.SizesFor.
	JournalFileSize, JournalBytes int64
	// OpenFiles bounds the segment files that are kept open per directory. Default:
	// half of what the process may have open, over all directories, but 256 to 16384. A
	// file that makes room for another must be synced first.
	OpenFiles int
	// IndexBytes bounds the memory, per directory, of the indexes of segments to which
	// nobody appends. Default 16 MiB.
	IndexBytes int64
	// SystemMemory is how many bytes of memory the machine has, which is where its
	// cache of files lies. Default: what the system says.
	SystemMemory int64
	// ProducerExpiry is producer.id.expiration.ms. Default one day.
	ProducerExpiry time.Duration
	// ProducersPerLog bounds how many producers a log remembers; of more than that, those
	// that were silent for longest are forgotten. Default: 1,000 to 100,000, in between one for
	// each 640 of DeferredBytes.
	ProducersPerLog int
	// MaxInflatedBytes bounds what a batch may decompress to in a lookup by
	// time. Default 1 GiB.
	MaxInflatedBytes int64
	// Absent tells the journals how many producing connections have no request
	// waiting; nil means that it isn't known.
	Absent func() int
	// RetentionInterval is the interval between retention runs
	// (log.retention.check.interval.ms). Default 5 minutes.
	RetentionInterval time.Duration
	// MinFree returns how many bytes must be free for new records: diskguard.Auto, or
	// 0 for none. It is asked at each look, once a second or more often. nil: none.
	MinFree func() int64
	// Cleaning configures compaction, for all directories that Open opens together.
	Cleaning Cleaning
	// Config returns the configuration of a log found on the disk.
	Config func(topic string, id ID) Config

	// Progress, where set, hears a few times a second how far the recovery of a
	// directory is: what goes on, and how much of it is done. Directories recover
	// at the same time, so it is called concurrently.
	Progress func(dir, doing string, done, all int)

	// Interrupted, where set, is asked all through the recovery of a directory, also
	// by several goroutines; from its first error on it must return one. That error
	// ends the recovery, and OpenDir returns it. The directory is then left as a kill
	// at that moment leaves it: the next start recovers.
	Interrupted func() error

	// For tests: called after a directory that had failed takes records again.
	reopened func(*Dir)
	answered func(state, event fmt.Stringer, a loglife.Answer) // called for each event of a directory or log
	broken   broken
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewStorage(nil)
	}
	set := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&o.DeferredBytes, 64<<20)
	set(&o.MaxInflatedBytes, 1<<30)
	if o.ProducersPerLog <= 0 {
		o.ProducersPerLog = int(min(max(o.DeferredBytes/640, 1000), producers.DefaultLimit))
	}
	o.Cleaning = o.Cleaning.share(1)
	set(&o.IndexBytes, 16<<20)
	set(&o.SystemMemory, vfs.SystemMemory())
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = 5 * time.Minute
	}
	if o.OpenFiles <= 0 {
		o.OpenFiles = openFiles(1)
	}
}

// openFiles is the default bound of open segment files of each of several directories.
func openFiles(dirs int) int { return min(max(vfs.Descriptors()/2/dirs, 256), 16384) }
