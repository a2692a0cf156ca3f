package storage

import (
	"fmt"
	"math"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"

	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/pkg/durability"
)

// ID names a log: a partition of one incarnation of a topic.
type ID = journal.StreamID

// Config is what a topic's configuration says about its logs. It may change at
// any time through Log.Configure.
type Config struct {
	Profile     durability.Profile
	Segment     segment.Limits
	Preallocate bool
	Cleanup     Cleanup
}

// Cleanup is what a topic's configuration says about what goes from its logs.
type Cleanup struct {
	// Delete and Compact are the elements of cleanup.policy.
	Delete, Compact bool
	// RetentionTime and RetentionBytes bound what Delete keeps (retention.ms,
	// retention.bytes); negative: no bound.
	RetentionTime  time.Duration
	RetentionBytes int64
	// TimestampAfter is message.timestamp.after.max.ms: how far ahead of the clock
	// a timestamp may lie and still be believed.
	TimestampAfter time.Duration
	// DeleteDelay is how long the files of a removed segment stay (file.delete.delay.ms).
	DeleteDelay time.Duration
	// MinDirty is the part of a log, 0 to 1, that must not have been compacted yet
	// for it to be worth a pass (min.cleanable.dirty.ratio).
	MinDirty float64
	// MinLag is the age that a record must have before it may be compacted away,
	// MaxLag the one after which its log is compacted whatever MinDirty says
	// (min.compaction.lag.ms, max.compaction.lag.ms).
	MinLag, MaxLag time.Duration
	// Tombstones is how long a record without a value stays after the pass that
	// found it to be the last of its key (delete.retention.ms).
	Tombstones time.Duration
	// Internal says that the broker itself writes the topic: its records are taken
	// on a disk that is too full for those of clients.
	Internal bool
}

// Observer hears of a log's ends. Its methods are called from the log's
// goroutines with no lock held and must not block.
type Observer interface {
	// Advanced says that the written or the durable end moved.
	Advanced()
	// Reverted says that everything at or beyond end, which had been numbered, is
	// lost; err says why. Nothing of it had been reported written or durable.
	Reverted(end int64, err error)
	// Truncated reports that the log was cut at end, whatever it had promised. The cut may
	// not be durable yet; a crash before that brings the old end back.
	Truncated(end int64)
	// StartMoved says that the log begins elsewhere, by retention or at a request: who
	// waits below its start waits for nothing.
	StartMoved()
}

// Log is one partition's log. All methods may be called concurrently.
type Log struct {
	id     ID
	topic  string
	path   string
	dir    *Dir
	stream *journal.Stream
	cfg    atomic.Pointer[Config]
	obs    atomic.Pointer[Observer]

	logStart atomic.Int64
	// startSynced is a start that a checkpoint is known to hold: where it may have
	// been lower than the log's is now, the log never begins below it again.
	startSynced atomic.Int64
	logEnd      atomic.Int64
	written     atomic.Int64
	durable     atomic.Int64

	flushMu sync.Mutex // see the package comment
	cutting *cutting   // a truncation that is not finished; guarded by flushMu
	pending *swap      // of segments, that is not finished; guarded by flushMu

	queueState

	smu       sync.Mutex
	producers producers.State
	epochs    epochs.Cache

	mu       sync.RWMutex
	tail     tail
	segments []*segment.Segment
	flushed  int64 // end of what is in segments
	rp       checkpoint.Point
	// lowestUnsynced is the LSN of the first frame that is in segments but not
	// synced there; 0 if there is none.
	lowestUnsynced journal.LSN
	flushedLSN     journal.LSN // of the last chunk in segments
	failure        error       // why the log takes no appends now; nil if it does
	offline        error       // why it neither takes nor gives anything
	carrying       bool        // a carried entry is on its way
	stopped        bool        // the directory is being closed
	closed         bool        // deleted

	clean    int64 // below it everything was compacted; guarded by mu
	swapMark bool  // checkpoints say that a start finishes a swap; guarded by mu
	swapBase int64 // of the segment that takes its place then; guarded by mu
	cuts     int   // counts truncations; guarded by mu

	attempts attempts // of compaction

	aside   *asideFrames    // hold what the journal held beyond rp, until segments do; guarded by mu
	spent   string          // name of frames that were aside, until a checkpoint says so; guarded by mu
	asFound *checkpoint.Log // what checkpoints go on saying of a log that is offline; guarded by mu

	damaged   atomic.Pointer[error] // the first damage that a read met
	readAt    atomic.Int64          // when batches were last read from a segment, unix ns; 0: never
	wait      atomic.Pointer[waitSeries]
	scheduled atomic.Bool // stands in the directory's flush queue
	unsynced  bool        // stands in Dir.unsynced
	committed int64       // recovery point that the checkpoint has; guarded by Dir.ckptMu
	listed    bool        // stands in memory.clean; guarded by memory.mu
}

func newLog(d *Dir, id ID, topic, dirName string, cfg Config) *Log {
	l := &Log{id: id, topic: topic, dir: d, path: path.Join(d.path, dirName), stream: journal.NewStream(id)}
	l.committed = -1
	l.cfg.Store(&cfg)
	l.queueState.init()
	l.producers = l.noProducers()
	return l
}

// ID returns the log's identity.
func (l *Log) ID() ID { return l.id }

// Topic returns the topic's name.
func (l *Log) Topic() string { return l.topic }

// Dir returns the log directory that holds it.
func (l *Log) Dir() *Dir { return l.dir }

// String is topic-partition, as in the directory's name.
func (l *Log) String() string { return fmt.Sprintf("%s-%d", l.topic, l.id.Partition) }

// Observe sets who hears of the log's ends; there is one.
func (l *Log) Observe(o Observer) { l.obs.Store(&o) }

func (l *Log) observer() Observer {
	if p := l.obs.Load(); p != nil {
		return *p
	}
	return nobody{}
}

type nobody struct{}

func (nobody) Advanced()             {}
func (nobody) Reverted(int64, error) {}
func (nobody) Truncated(int64)       {}
func (nobody) StartMoved()           {}

// Config returns the configuration in force.
func (l *Log) Config() Config { return *l.cfg.Load() }

// Configure changes the configuration. A new durability profile takes effect
// between two groups. Where the old one acknowledged what was only written, AckEnd goes
// back to the durable end until the datasync that this call asks for.
func (l *Log) Configure(cfg Config) {
	old := l.cfg.Swap(&cfg)
	if cfg.Profile.Ack == durability.Synced && l.written.Load() > l.durable.Load() {
		l.dir.journal.Sync()
	}
	if old.Cleanup != cfg.Cleanup {
		l.dir.keep()
	}
}

// Ends are a log's offsets: LogStart ≤ Durable ≤ Written ≤ LogEnd but right
// after a deletion of records, when LogStart may be above Durable for a moment.
type Ends struct {
	LogStart int64 // the first offset that may be read
	Durable  int64 // below it everything survives a loss of power
	Written  int64 // below it everything survives the end of the process
	LogEnd   int64 // the next offset
}

// Ends returns the ends, each as of a moment during the call.
func (l *Log) Ends() Ends {
	e := Ends{LogStart: l.logStart.Load(), Durable: l.durable.Load()}
	e.Written = max(l.written.Load(), e.Durable)
	e.LogEnd = max(l.logEnd.Load(), e.Written)
	return e
}

// AckEnd is the end below which records count as the profile demands.
func (l *Log) AckEnd() int64 {
	if l.cfg.Load().Profile.Ack == durability.Synced {
		return l.durable.Load()
	}
	return max(l.written.Load(), l.durable.Load())
}

// Err returns why the log can't be used, nil if it can: it is offline, or it
// takes no appends for the time being.
func (l *Log) Err() error {
	if err := l.dir.Err(); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.unusableLocked()
}

func (l *Log) unusableLocked() error {
	switch {
	case l.closed || l.stopped:
		return fmt.Errorf("%s: %w", l, ErrClosed)
	case l.offline != nil:
		return l.offline
	default:
		return l.failure
	}
}

// Damaged returns the first damage that a read of this run met, nil if none did.
// The records there are answered with ErrCorrupt; the others are served.
func (l *Log) Damaged() error {
	if p := l.damaged.Load(); p != nil {
		return *p
	}
	return nil
}

// Offline returns why the log neither takes nor gives records, nil if it does.
func (l *Log) Offline() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return fmt.Errorf("%s: %w", l, ErrClosed)
	}
	return l.offline
}

// failedForGood says that the log went offline, also once it is deleted.
func (l *Log) failedForGood() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.offline != nil
}

// givenUp says that the log stays offline over starts.
func (l *Log) givenUp() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.asFound != nil && l.asFound.Offline != ""
}

// goOffline stops all use of the log until the next start.
func (l *Log) goOffline(err error) {
	l.mu.Lock()
	first := l.offline == nil
	if first {
		l.offline = fmt.Errorf("%w: %s is offline: %w", ErrFailed, l, err)
	}
	err = l.offline
	end := max(l.written.Load(), l.durable.Load())
	l.mu.Unlock()
	if !first {
		return
	}
	l.dir.logOffline(l, err)
	// Whoever commits may still be numbering; what it numbers is lost too. The
	// caller may hold flushMu, for which the committer may wait.
	tell := func() {
		l.own()
		defer l.disown()
		l.flushMu.Lock()
		l.dir.memory.evictAll([]*Log{l})
		l.flushMu.Unlock()
		l.observer().Reverted(end, err)
	}
	if !l.dir.run(tell) {
		l.observer().Reverted(end, err)
	}
}

// Size returns the bytes of record batches in the log, in segments and beyond.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n int64
	for _, s := range l.segments {
		n += s.Size()
	}
	return n + l.tail.unflushedBytes()
}

// oldestLocked returns the smallest LSN of a frame that is contained neither in
// synced segment bytes nor in a file aside, and MaxUint64 if there is none. Frames
// whose owner has not been notified don't count.
func (l *Log) oldestLocked() journal.LSN {
	if l.aside != nil { // a log takes no appends as long as it has one
		return math.MaxUint64
	}
	if l.lowestUnsynced != 0 {
		return l.lowestUnsynced
	}
	if c := l.tail.firstUnflushed(); c != nil && c.first != 0 {
		return c.first
	}
	return math.MaxUint64
}

// EpochEnd returns the largest known epoch not above epoch and where it ended;
// see epochs.Cache.End.
func (l *Log) EpochEnd(epoch int32) (int32, int64) {
	l.smu.Lock()
	defer l.smu.Unlock()
	return l.epochs.End(epoch, l.logEnd.Load())
}

// EpochAt returns the leader epoch of the record at an offset, -1 if unknown.
func (l *Log) EpochAt(offset int64) int32 {
	l.smu.Lock()
	defer l.smu.Unlock()
	return l.epochs.At(offset)
}

// BeginEpoch notes that the records from the log's end on belong to a leader
// epoch.
func (l *Log) BeginEpoch(epoch int32) {
	l.smu.Lock()
	defer l.smu.Unlock()
	l.epochs.Assign(epoch, l.logEnd.Load())
}
