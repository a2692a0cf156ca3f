package storage

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/states"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Options are shared by the log directories of a broker.
type Options struct {
	FS vfs.FS
	// Holder is the content of the lock file, which names the user of the directory: "pid 123".
	Holder string
	// Replicated: other brokers may have what a directory lacks. A refusal then advises no repair.
	Replicated bool
	Logger     *zap.Logger // nil: no logging
	// Metrics may be nil.
	Metrics *metrics.Storage
	// DeferredBytes bounds the memory of a directory for record bytes that are not in segments yet,
	// and for the cache of those that are. Internal topics may use an eighth more. Default 64 MiB.
	DeferredBytes int64
	// JournalFileSize is the size of a journal file. JournalBytes bounds the size of all of them,
	// and so the time of a recovery. 0 means a value that depends on the size of the disk; see
	// diskguard.SizesFor.
	JournalFileSize, JournalBytes int64
	// OpenFiles bounds the segment files that are kept open per directory. Default: half of the
	// process's limit, divided by the number of directories, but 256 to 16384. A file must be
	// synced before it is closed to make room for another.
	OpenFiles int
	// IndexBytes bounds the memory per directory for the indexes of segments other than the active
	// ones. Default 16 MiB.
	IndexBytes int64
	// SystemMemory is the memory of the machine in bytes, which bounds its page cache. Default: as
	// the system reports.
	SystemMemory int64
	// Boot returns an identifier of this boot of the operating system, zero if it is unknown.
	// Default vfs.BootIDOf.
	Boot func() [16]byte
	// ProducerExpiry is producer.id.expiration.ms. Default one day.
	ProducerExpiry time.Duration
	// ProducersPerLog bounds how many producers a log remembers; above it, the log forgets those
	// that were silent for longest. Default: DeferredBytes / 640, but 1,000 to 100,000.
	ProducersPerLog int
	// Places are where a lookup by time and a compaction inflate a batch, each to 1 GiB at most;
	// nil: anywhere.
	Places *share.Places
	// Absent returns how many producing connections have no request waiting; nil means that the
	// number is unknown.
	Absent func() int
	// RetentionInterval is the interval between retention checks
	// (log.retention.check.interval.ms). Default 5 minutes.
	RetentionInterval time.Duration
	// MinFree returns how many bytes must be free before new records are accepted: diskguard.Auto,
	// or 0 for no limit. It is called at least once a second. nil means no limit.
	MinFree func() int64
	// Cleaning configures compaction, for all directories that Open opens together.
	Cleaning Cleaning
	// Config returns the configuration of a log that recovery found on the disk.
	Config func(topic string, id ID) Config

	// Progress, if set, is called a few times a second with the progress of a directory's recovery:
	// the current step, and how much of it is done. Directories recover at the same time, so calls
	// are concurrent.
	Progress func(dir, doing string, done, all int)

	// Interrupted, if set, is polled throughout the recovery of a directory, also by several
	// goroutines. Once it has returned an error, it must keep returning one. That error ends the
	// recovery, and Open returns it. The directory is then in the state that a kill at that
	// moment would leave: the next start recovers.
	Interrupted func() error
	// open is the number of open transactions in all directories that Open opens together.
	open *atomic.Int64
	// openTick fires after openPatience; tests replace it.
	openTick func() <-chan time.Time

	// For tests: called after a failed directory accepts records again.
	reopened func(*Dir)
	answered func(state, event fmt.Stringer, a states.Answer) // for tests: called for each event of a directory or log
	broken   broken
	// compactBytes is that of checkpoint.Options, for tests.
	compactBytes int64
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewStorage(nil)
	}
	if o.open == nil {
		o.open = new(atomic.Int64)
	}
	if o.Boot == nil {
		o.Boot = func() [16]byte { return vfs.BootIDOf(o.FS) }
	}
	if o.openTick == nil {
		o.openTick = func() <-chan time.Time { return time.After(openPatience) }
	}
	setDefault(&o.DeferredBytes, 64<<20)
	setDefault(&o.ProducersPerLog, int(min(max(o.DeferredBytes/640, 1000), producers.DefaultLimit)))
	o.Cleaning = o.Cleaning.share(1)
	setDefault(&o.IndexBytes, 16<<20)
	setDefault(&o.SystemMemory, vfs.SystemMemory())
	setDefault(&o.RetentionInterval, 5*time.Minute)
	setDefault(&o.OpenFiles, openFiles(1))
}

func setDefault[T ~int | ~int64](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// openFiles returns the default bound of open segment files for each of several directories.
func openFiles(dirs int) int { return min(max(vfs.Descriptors()/2/dirs, 256), 16384) }

// inflating returns the bounds of one inflated batch.
func (o *Options) inflating() record.Limits { return record.Limits{Bytes: 1 << 30, Places: o.Places} }
