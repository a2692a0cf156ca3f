package storage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/few"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Location names a log directory and the directory of its journal.
type Location struct {
	Path string
	// Journal is the directory of the journal's files; "" means Path/journal.
	Journal string
	// Hung: its disk has not answered so far. Open leaves it out and does not call the disk.
	Hung bool
}

// Locations returns log directories with their journals, in the same order. Those at the end may
// have none of their own.
func Locations(dirs, journals []string) []Location {
	all := make([]Location, len(dirs))
	for i, dir := range dirs {
		all[i].Path = dir
		if i < len(journals) {
			all[i].Journal = journals[i]
		}
	}
	return all
}

// Dir is one log directory: its logs, their journal, and the goroutines that flush memory to
// segments. It fails and recovers independently of other directories.
type Dir struct {
	opt   *Options
	path  string
	jpath string
	sizes diskguard.JournalSizes
	ident Identity
	lock  io.Closer
	clean bool // the last stop was clean
	lossReport
	savedHigh uint64 // checksum of what SaveHigh wrote last; 0: nothing
	// unused: the directory was not used since it was opened; see Manager.Unused.
	unused bool
	log    *zap.Logger

	journal *journal.Journal
	files   *segment.Files
	memory  memory
	debts   debts
	guard   spaceGuard
	stats   stats

	turnover turnover
	scarce   scarcity
	suspects few.Set[*Log] // logs that may be faulty; see Faulty
	unstable few.Set[*Log] // logs with transactions that readers of committed records wait for
	life     atomic.Pointer[dirLife]

	mu        sync.Mutex
	logs      map[ID]*Log
	list      []*Log            // values of logs; nil if they have changed since, and never changed itself
	broken    map[*Log]*mending // logs that the maintenance goroutine must repair
	limits    *sizeLimits       // nil if logs have changed since
	deleted   map[ID]tombstone
	replaced  map[ID]ReplacedLog
	futures   []future        // that the start has found; used by Open only
	requested []*Log          // logs whose entries commitRequested is to commit
	failed    series.Failures // that are logged

	operations sync.WaitGroup // operations that Manager has started

	still  standstill
	steps  atomic.Uint64 // completed parts of a recovery, of creations and deletions; see progress
	late   atomic.Bool   // Open does not wait for this directory any longer
	unsure atomic.Bool   // the checkpoint on the disk may name logs that do not exist; see ascertain

	ckptMu vfs.Mutex
	store  *checkpoint.Store // guarded by ckptMu, like last
	last   checkpoint.Header // of the last checkpoint; see setLast
	sumBuf []byte            // of committedOf; guarded by ckptMu
	minLSN journal.LSN       // all LSNs that recovery found are below it

	unsynced  unsyncedLogs  // used by the journal's callbacks only
	syncedLSN atomic.Uint64 // the logs have been notified that frames up to it are durable

	tasks
	retention                 retentionLoop
	scrubbing                 scrubbing
	compactingMu              vfs.Mutex  // held during a compaction pass
	pace                      pause.Pace // of what compaction reads and writes
	cleaning                  atomic.Pointer[Cleaning]
	cleaningChanged           chan struct{} // capacity 1: SetCleaning has changed cleaning
	sweeps, repairs, pressure chan struct{} // capacity 1 each: a sweep, repairs or flushes for memory are due
	renewals                  chan struct{} // capacity 1: the changes in the checkpoint have grown
	requests                  chan struct{} // capacity 1: commits are requested
	carryWait                 time.Duration // carryWait, which a test changes before the first sweep
	failures                  chan error    // capacity 1: why the journal failed, for maintain
	quit                      chan struct{} // closed by Close
	done                      sync.WaitGroup
}

// tombstone is the checkpoint entry of a deleted log. Frames or files of the log may still exist.
type tombstone struct {
	checkpoint.Log      // frames up to its LSN may belong to the log
	gone           bool // the log's directory no longer has the log's name
	stored         bool // the checkpoint has it
}

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// JournalPath returns the directory of the journal.
func (d *Dir) JournalPath() string { return d.jpath }

// MissingJournalFiles returns the names of journal files that were removed while they are in use.
// It waits for the disk.
func (d *Dir) MissingJournalFiles() []string { return d.journal.Missing() }

// Location returns the paths of the directory and its journal.
func (d *Dir) Location() Location { return Location{Path: d.path, Journal: d.jpath} }

// ID returns the directory's identity.
func (d *Dir) ID() [16]byte { return d.ident.Dir }

// Clean reports whether the stop before this start was clean. After an unclean stop, leader epochs
// must be raised before the first append (invariant I9).
func (d *Dir) Clean() bool { return d.clean }

// Logs returns all logs of the directory, including offline ones.
func (d *Dir) Logs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logsLocked()
}

// logsLocked returns the values of logs. The caller holds mu, and must not change the slice.
func (d *Dir) logsLocked() []*Log {
	if d.list == nil {
		d.list = slices.Collect(maps.Values(d.logs))
	}
	return d.list
}

// relistLocked is called after each change of logs. The caller holds mu.
func (d *Dir) relistLocked() { d.list, d.limits = nil, nil }

// limitsChanged is called after a change of a log's retention.
func (d *Dir) limitsChanged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limits = nil
}

// sizeLimits is the result of Dir.SizeLimits.
type sizeLimits struct {
	logs  int
	bytes int64
}

// SizeLimits returns how many logs only their size limits, and the sum of these limits
// (retention.bytes).
func (d *Dir) SizeLimits() (logs int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limits == nil {
		d.limits = &sizeLimits{}
		for _, l := range d.logs {
			if c := &l.cfg.Load().Cleanup; c.Delete && c.RetentionTime < 0 && c.RetentionBytes >= 0 {
				d.limits.logs++
				d.limits.bytes += min(c.RetentionBytes, math.MaxInt64-d.limits.bytes)
			}
		}
	}
	return d.limits.logs, d.limits.bytes
}

// OpenDir opens a log directory, creating it if it is missing or empty, and recovers its logs. If
// the directory must not be used, the error is a DirError that names cause and remedy.
func OpenDir(loc Location, opt Options) (*Dir, error) {
	opt.setDefaults()
	d := newDir(loc, &opt)
	if err := d.open(); err != nil {
		return nil, d.failure(loc, err)
	}
	return d, nil
}

func (d *Dir) failure(loc Location, err error) *DirError {
	return &DirError{Path: loc.Path, Journal: loc.Journal, ID: d.ident.Dir, Err: err, Replicated: d.opt.Replicated}
}

// newDir returns a Dir for a place and does no I/O.
func newDir(loc Location, opt *Options) *Dir {
	d := &Dir{
		opt: opt, path: path.Clean(loc.Path), jpath: loc.JournalPath(),
		logs: map[ID]*Log{}, broken: map[*Log]*mending{}, deleted: map[ID]tombstone{}, replaced: map[ID]ReplacedLog{},
		sweeps: make(chan struct{}, 1), repairs: make(chan struct{}, 1), pressure: make(chan struct{}, 1),
		renewals: make(chan struct{}, 1), requests: make(chan struct{}, 1),
		cleaningChanged: make(chan struct{}, 1), failures: make(chan error, 1), quit: make(chan struct{}),
		carryWait: carryWait, pace: pause.Pace{Idle: paceIdle},
	}
	d.life.Store(&dirLife{})
	d.boot = opt.Boot()
	d.owner.Store(&checkpoint.Owner{})
	d.log = opt.Logger.With(zap.String("dir", d.path))
	d.stats = newStats(opt.Metrics, d.path)
	d.memory.pool, d.memory.chunks, d.memory.bound = new(bufpool.Pool), new(sync.Pool), opt.DeferredBytes
	d.turnover = turnover{memory: opt.SystemMemory, since: time.Now()}
	d.memory.requestFlush = func() { signal(d.pressure) }
	d.tasks.init()
	d.retention.init()
	d.scrubbing.changed = make(chan struct{}, 1)
	d.guard.init()
	d.cleaning.Store(&opt.Cleaning)
	return d
}

// takeLock locks the directory against other processes.
func (d *Dir) takeLock() (io.Closer, error) {
	lock, err := d.opt.FS.Lock(path.Join(d.path, LockFile), d.opt.Holder)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return lock, err
}

func (d *Dir) open() (err error) {
	fsys := d.opt.FS
	if err := d.refuseForeignDir(); err != nil {
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
	if err := d.identify(); err != nil {
		return err
	}
	opt := d.journalOptions()
	opt.Sweep, opt.Stalls = func() { signal(d.sweeps) }, d.attend
	opt.Absent, opt.Failed, opt.Synced, opt.DurableThrough = d.opt.Absent, d.journalFailed, d.stats.group, d.durableThrough
	opt.Broken = d.opt.broken.journal
	opt.UnsyncedBytes = d.opt.DeferredBytes / 8 // only synced bytes can be flushed
	if d.journal, err = journal.Open(opt); err != nil {
		return err
	}
	if err := d.recover(); err != nil {
		return err
	}
	d.files.YieldTo(func() bool { return d.journal.SmallTraffic(time.Now()) })
	if d.late.Load() {
		return errLate
	}
	d.start()
	return nil
}

var errLate = errors.New("recovery interrupted: the disk of the directory did not answer, and the broker has started without it")

// interrupted returns an error if the recovery should stop. A recovery calls it often, so that a
// count of the calls shows its progress.
func (d *Dir) interrupted() error {
	d.steps.Add(1)
	if d.late.Load() {
		return errLate
	}
	if d.opt.Interrupted == nil {
		return nil
	}
	if err := d.opt.Interrupted(); err != nil {
		return fmt.Errorf("recovery interrupted: %w", err)
	}
	return nil
}

// abort releases everything that open acquired before it failed.
func (d *Dir) abort() {
	if d.journal != nil {
		_ = d.journal.Close()
	}
	_ = d.closeCheckpoint()
	_ = d.files.Close()
	_ = d.lock.Close()
}

// now returns the wall-clock time.
func (d *Dir) now() time.Time { return time.Now() }

// start starts the directory's goroutines. Close stops them.
func (d *Dir) start() {
	for range flushers {
		d.done.Go(func() {
			label.Goroutine("storage flush", d.path)
			d.work()
		})
	}
	d.done.Go(d.maintain)
	d.done.Go(d.relieveMemory)
	d.done.Go(d.renewCheckpoints)
	d.done.Go(d.commitRequested)
	d.done.Go(d.runRetention)
	d.done.Go(d.compactLogs)
	d.done.Go(d.scrub)
	d.done.Go(d.checkFiles)
	if d.opt.MinFree != nil {
		d.measureSpace() // before the first record
		d.done.Go(d.guardSpace)
	}
}
