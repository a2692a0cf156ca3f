package storage

import (
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

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

	ends

	flushMu sync.Mutex // see the package comment
	queueState

	smu       sync.Mutex
	producers producers.State
	epochs    epochs.Cache

	mu       sync.RWMutex
	life     life // changes with flushMu held, too; see onLocked
	tail     tail
	carrying bool // a carried entry is on its way
	stored
	clean int64 // below it everything was compacted
	cuts  int   // counts truncations

	attempts attempts // of compaction

	flawed    atomic.Bool  // a segment has flaws, or had; see Damages
	readAt    atomic.Int64 // when batches were last read from a segment, unix ns; 0: never
	wait      atomic.Pointer[waitSeries]
	scheduled atomic.Bool // stands in the directory's flush queue
	unsynced  bool        // stands in Dir.unsynced
	committed int64       // recovery point that the checkpoint has; guarded by Dir.ckptMu
	listed    bool        // stands in memory.clean; guarded by memory.mu
}

func newLog(d *Dir, id ID, topic string, cfg Config) *Log {
	l := &Log{id: id, topic: topic, dir: d, stream: journal.NewStream(id), committed: -1}
	l.path = path.Join(d.path, l.String())
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
	return noopObserver{}
}

type noopObserver struct{}

func (noopObserver) Advanced()             {}
func (noopObserver) Reverted(int64, error) {}
func (noopObserver) Truncated(int64)       {}
func (noopObserver) StartMoved()           {}

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
		l.dir.wakeRetention()
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
