package storage

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
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
	// KeeperInterval is how often the logs are looked at for what their retention
	// takes (log.retention.check.interval.ms). Default 5 minutes.
	KeeperInterval time.Duration
	// MinFree returns how many bytes must be free for new records: AutoMinFree, or
	// 0 for none. It is asked at each look, once a second or more often. nil: none.
	MinFree func() int64
	// CleanerBytes bounds the memory of the key map of a compaction, of all
	// directories together where Manager opens them (log.cleaner.dedupe.buffer.size).
	// A pass takes as much of it as its keys need, while it runs. Default 128 MiB.
	CleanerBytes int64
	// CleanerBytesPerSecond bounds what compactions read and write, of all
	// directories together where Manager opens them
	// (log.cleaner.io.max.bytes.per.second). 0: no limit.
	CleanerBytesPerSecond int64
	// CleanerBackoff is how often a log is looked for that is due for compaction,
	// where the last look found none (log.cleaner.backoff.ms). Default 15 seconds.
	CleanerBackoff time.Duration
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
	set(&o.CleanerBytes, cleanerBytes)
	set(&o.IndexBytes, 16<<20)
	if o.CleanerBackoff <= 0 {
		o.CleanerBackoff = 15 * time.Second
	}
	set(&o.SystemMemory, vfs.SystemMemory())
	if o.KeeperInterval <= 0 {
		o.KeeperInterval = 5 * time.Minute
	}
	if o.OpenFiles <= 0 {
		o.OpenFiles = openFiles(1)
	}
}

// cleanerBytes is the default of Options.CleanerBytes.
const cleanerBytes = 128 << 20

// openFiles is the default bound of open segment files of each of several directories.
func openFiles(dirs int) int { return min(max(vfs.Descriptors()/2/dirs, 256), 16384) }

// Place names a log directory and where its journal is.
type Place struct {
	Path string
	// Journal is the directory of the journal's files; "" means Path/journal.
	Journal string
}

// Dir is one log directory: its logs, their journal, and the goroutines that
// bring bytes from memory to segments. It fails and recovers on its own.
type Dir struct {
	opt   *Options
	path  string
	jpath string
	sizes diskguard.JournalSizes
	ident identity
	lock  io.Closer
	clean bool // the last stop was clean
	// unused: nobody has used the directory since it was opened; see leaveUnused.
	unused bool
	// recovering: segments are made of what the journal holds, and nobody reads yet.
	recovering bool
	log        *zap.Logger

	journal *journal.Journal
	files   *segment.Files
	memory  memory
	guard   spaceGuard
	stats   stats

	turnover turnover
	failed   atomic.Pointer[error]
	blocked  atomic.Pointer[error] // the journal is full, and no sweep can change that

	mu      sync.Mutex
	logs    map[ID]*Log
	list    []*Log // of logs, replaced when it changes
	broken  map[*Log]struct{}
	deleted map[ID]tombstone
	said    map[string]int // repeated failures that were logged

	flights sync.WaitGroup // what Manager has asked for

	steps  atomic.Uint64 // finished parts of creations and deletions; see progress
	unsure atomic.Bool   // the checkpoint on the disk may name logs that are not there; see ascertain

	ckptMu sync.Mutex
	store  *checkpoint.Store // guarded by ckptMu, like last
	last   checkpoint.Header // what the last checkpoint says
	minLSN journal.LSN       // what recovery found is below it

	unsynced  unsyncedLogs  // of the journal's callbacks
	syncedLSN atomic.Uint64 // the logs know that the frames up to it are durable

	tasks
	keeper                    keeper
	compacting                sync.Mutex // one pass at a time
	pace                      pace
	cleaning                  atomic.Pointer[Cleaning]
	recleaned                 chan struct{} // cleaning has changed
	sweeps, repairs, pressure chan struct{}
	failures                  chan error
	quit                      chan struct{}
	closing                   atomic.Bool
	done                      sync.WaitGroup
}

// tombstone is a deleted log whose frames or files may still be there.
type tombstone struct {
	entry checkpoint.Log
	// lsn: frames up to it may be the log's.
	lsn journal.LSN
	// gone: the directory no longer stands under the log's name.
	gone bool
}

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// JournalPath returns where the directory's journal is.
func (d *Dir) JournalPath() string { return d.jpath }

// ID returns the directory's identity.
func (d *Dir) ID() [16]byte { return d.ident.Dir }

// Clean says whether the stop before this start was clean. Where it wasn't,
// leader epochs must be raised before the first append (invariant I9).
func (d *Dir) Clean() bool { return d.clean }

// Err returns why the directory takes no records, nil if it does.
func (d *Dir) Err() error {
	if p := d.failed.Load(); p != nil {
		return *p
	}
	if p := d.blocked.Load(); p != nil {
		return *p
	}
	if err := d.journal.Stalled(); err != nil {
		return fmt.Errorf("%w: log directory %s: %w", ErrFailed, d.path, err)
	}
	return nil
}

// Logs returns all logs of the directory, offline ones included.
func (d *Dir) Logs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list
}

func (d *Dir) relistLocked() {
	d.list = make([]*Log, 0, len(d.logs))
	for _, l := range d.logs {
		d.list = append(d.list, l)
	}
}

// OpenDir opens a log directory, making it if it is empty, and recovers its
// logs. The error names cause and remedy where the directory must not be used.
func OpenDir(place Place, opt Options) (*Dir, error) {
	opt.setDefaults()
	d := newDir(place, &opt)
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// newDir returns a directory that nothing has been done with.
func newDir(place Place, opt *Options) *Dir {
	d := &Dir{
		opt: opt, path: path.Clean(place.Path), jpath: path.Clean(place.Journal),
		logs: map[ID]*Log{}, broken: map[*Log]struct{}{}, deleted: map[ID]tombstone{}, said: map[string]int{},
		sweeps: make(chan struct{}, 1), repairs: make(chan struct{}, 1), pressure: make(chan struct{}, 1),
		recleaned: make(chan struct{}, 1), failures: make(chan error, 1), quit: make(chan struct{}),
	}
	if place.Journal == "" {
		d.jpath = path.Join(d.path, "journal")
	}
	d.log = opt.Logger.With(zap.String("dir", d.path))
	d.stats = newStats(opt.Metrics, d.path)
	d.memory.bound = opt.DeferredBytes
	d.turnover = turnover{memory: opt.SystemMemory, since: time.Now()}
	d.memory.press = func() { d.signal(d.pressure) }
	d.tasks.init()
	d.keeper.init()
	d.guard.init()
	d.setCleaning(Cleaning{Backoff: opt.CleanerBackoff, KeyBytes: opt.CleanerBytes, BytesPerSecond: opt.CleanerBytesPerSecond})
	return d
}

// takeLock keeps other processes out.
func (d *Dir) takeLock() (io.Closer, error) {
	lock, err := d.opt.FS.Lock(path.Join(d.path, lockFile), d.opt.Holder)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return lock, err
}

func (d *Dir) open() (err error) {
	fsys := d.opt.FS
	if err := d.untouched(); err != nil {
		return err
	}
	for _, p := range []string{d.path, d.jpath} {
		if err := vfs.MakeDir(fsys, p); err != nil {
			return err
		}
	}
	if d.lock, err = d.takeLock(); err != nil {
		return err
	}
	d.files = segment.NewFiles(fsys, d.opt.OpenFiles)
	d.files.BoundIndexes(d.opt.IndexBytes)
	defer func() {
		if err != nil {
			d.abort()
		}
	}()
	if _, err := d.identify(); err != nil {
		return err
	}
	opt := d.journalOptions()
	opt.Sweep = func() { d.signal(d.sweeps) }
	opt.Absent, opt.Failed, opt.Synced, opt.DurableThrough = d.opt.Absent, d.journalFailed, d.stats.group, d.durableThrough
	opt.Broken = d.opt.broken.inJournal()
	opt.UnsyncedBytes = d.opt.DeferredBytes / 8 // what is not synced can't be flushed
	if d.journal, err = journal.Open(opt); err != nil {
		return err
	}
	if err := d.recover(); err != nil {
		return err
	}
	d.start()
	return nil
}

// interrupted is an error from when on the recovery is to end.
func (d *Dir) interrupted() error {
	if d.opt.Interrupted == nil {
		return nil
	}
	if err := d.opt.Interrupted(); err != nil {
		return fmt.Errorf("the recovery was interrupted: %w", err)
	}
	return nil
}

// abort gives back what open took before it failed.
func (d *Dir) abort() {
	if d.journal != nil {
		_ = d.journal.Close()
	}
	_ = d.closeCheckpoint()
	_ = d.files.Close()
	_ = d.lock.Close()
}

// Close brings everything into synced segments, marks the stop as clean and
// gives the directory back. Appends fail from now on. On error the stop is not
// clean, and nothing is lost: the next start recovers.
func (d *Dir) Close() error {
	if !d.closing.CompareAndSwap(false, true) {
		return nil
	}
	for _, l := range d.Logs() {
		l.stop()
	}
	d.drain()
	close(d.quit)
	d.tasks.stop()
	d.done.Wait()
	err := d.leave()
	for _, e := range []error{d.journal.Close(), d.closeCheckpoint(), d.files.Close(), d.lock.Close()} {
		if err == nil && e != nil {
			err = fmt.Errorf("close log directory %s: %w", d.path, e)
		}
	}
	d.memory.evictAll(d.Logs())
	return err
}

// leave is the part of Close that makes the next start short.
func (d *Dir) leave() error {
	if d.failed.Load() != nil {
		return fmt.Errorf("close log directory %s: %w", d.path, *d.failed.Load())
	}
	clean, failed := d.allHome()
	d.awaitCarried()
	at, err := d.journal.Rotate()
	if err == nil {
		err = d.checkpoint(&at)
	}
	if err != nil || !clean {
		return errors.Join(failed, err)
	}
	if d.unused && !d.clean {
		return nil
	}
	return d.writeCleanMark(at)
}

// allHome brings all logs into synced segments. It says whether all of them are
// there, and the first error.
func (d *Dir) allHome() (clean bool, failed error) {
	var mu sync.Mutex
	logs := d.Logs()
	clean = true
	each(len(logs), func(i int) {
		l, home := logs[i], false
		var err error
		if l.Offline() != nil {
			home = l.givenUp() // the next start is to look at the others as after a crash
		} else if err = l.bringHome(); err == nil {
			home = l.logEnd.Load() == l.flushed
		}
		mu.Lock()
		defer mu.Unlock()
		clean = clean && home
		if failed == nil {
			failed = err
		}
	})
	return clean, failed
}

// awaitCarried waits for what an interrupted sweep gave to the journal.
func (d *Dir) awaitCarried() {
	deadline := time.Now().Add(carryWait)
	for _, l := range d.Logs() {
		for l.isCarrying() && d.Err() == nil && time.Now().Before(deadline) {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// closeWait bounds how long a stop waits for what the journal has no room for.
const closeWait = 5 * time.Second

// stop makes the log take no more appends.
func (l *Log) stop() {
	l.mu.Lock()
	l.stopped = true // first, so that whoever has the right to commit and waits gives up
	l.mu.Unlock()
	l.own()
	l.disown() // refuses what is queued
}

// drain waits until everything is durable in the journal, as long as that can be. The
// owners of what is left then receive an error when the journal closes.
func (d *Dir) drain() {
	deadline := time.Now().Add(closeWait)
	for _, l := range d.Logs() {
		for l.inFlight() && d.Err() == nil && time.Now().Before(deadline) {
			d.journal.Sync()
			time.Sleep(100 * time.Microsecond)
		}
	}
}
