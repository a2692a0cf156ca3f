package storage

import (
	"fmt"
	"math"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// ID identifies a log: a partition of one incarnation of a topic.
type ID = journal.StreamID

// Config is the part of a topic's configuration that concerns its logs. Log.Configure may change it
// at any time.
type Config struct {
	Profile     durability.Profile
	Segment     segment.Limits
	Preallocate bool
	Cleanup     Cleanup
}

// Cleanup is the part of a topic's configuration that controls retention and compaction.
type Cleanup struct {
	// Delete and Compact are the elements of cleanup.policy.
	Delete, Compact bool
	// RetentionTime and RetentionBytes limit what Delete keeps (retention.ms, retention.bytes).
	// Negative: no limit.
	RetentionTime  time.Duration
	RetentionBytes int64
	// TimestampAfter is how far ahead of the clock a timestamp may be and still count
	// (message.timestamp.after.max.ms).
	TimestampAfter time.Duration
	// DeleteDelay is how long the files of a removed segment stay on disk (file.delete.delay.ms).
	DeleteDelay time.Duration
	// MinDirty is the dirty ratio, 0 to 1, above which a log is compacted
	// (min.cleanable.dirty.ratio).
	MinDirty float64
	// MinLag is the minimum age of a record before it may be compacted (min.compaction.lag.ms).
	// MaxLag is the maximum age of a dirty record: beyond it the log is compacted regardless of
	// MinDirty (max.compaction.lag.ms).
	MinLag, MaxLag time.Duration
	// Tombstones is how long a tombstone stays after the first pass that found it to be the last
	// record of its key (delete.retention.ms).
	Tombstones time.Duration
	// CopyFirst: records are copied to the object store before retention may remove them, so that
	// RetentionTime and RetentionBytes are about the local disks. See Observer.Copied.
	CopyFirst bool
	// Internal marks a topic that the broker itself writes. Its records are still accepted when the
	// disk has too little space for those of clients, and no large record is written in pieces for
	// them.
	Internal bool
}

// Policy returns cleanup.policy as a config writes it, empty if all records are kept.
func (c *Cleanup) Policy() string {
	switch {
	case c.Compact && c.Delete:
		return "compact,delete"
	case c.Compact:
		return "compact"
	case c.Delete:
		return "delete"
	}
	return ""
}

// Observer is notified when a log's offsets change, and bounds what may be removed from it. The
// log's goroutines call its methods without Log.producersMu and Log.mu, but Reverted may be called
// with Log.flushMu held. The methods must not block.
type Observer interface {
	// Appended reports that records were appended, once for each chunk of up to about 256 KiB.
	// ReadMemory and ReadSpanMemory return them, but no byte of them has been submitted to the
	// journal. A stream to a follower adds its connection to batch, whose Run calls Push before it
	// writes a journal; batch is nil if the append belongs to no batch, and then Appended must wake
	// another goroutine. Appended is called for every append of a produce request, so it must cost
	// no more than a few loads if no broker follows the log.
	Appended(batch *groupcommit.Batch)
	// Advanced reports that the written or the durable end advanced.
	Advanced()
	// Reverted reports that records at or beyond end were discarded because of err. None of them
	// had been reported as written or durable, but followers may hold them. If the log leads, it
	// accepts no appends until SetLeaderEpoch or ResumeEpoch, which Reverted may call.
	Reverted(end int64, err error)
	// Truncated reports that the log was truncated to end, including acknowledged records. The
	// truncation may not be durable yet: a crash may restore the old end.
	Truncated(end int64)
	// StartMoved reports that the log start moved, by retention or on request. Readers that wait
	// below it can be answered.
	StartMoved()
	// High returns the high watermark and the leader epoch in which this broker learned it; an
	// offset of -1 means that it is not known yet. Retention removes nothing at or above it, and
	// checkpoints store it (Log.RecoveredHigh). High may be called with Log.flushMu held.
	High() (offset int64, epoch int32)
	// Copied returns the end of the records that the object store has, too, if retention may remove
	// only those: MaxInt64 if it may remove others.
	Copied() int64
	// Deleted returns the offset below which all records are deleted, also those that the log still
	// has; 0: none of these is. It may be called without Log.mu only.
	Deleted() int64
	// Stable returns the last stable offset, at most High. Compaction removes nothing at or above
	// it.
	Stable() int64
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

	flushMu vfs.Mutex // held during flushes; see the package comment
	queueState

	producersMu sync.Mutex
	producers   producers.State
	epochs      epochs.Cache
	fence       fence
	unstable    unstable

	mu       sync.RWMutex
	life     life // changed with flushMu held, too; see applyEventLocked
	tail     tail
	carrying bool // a carried entry is in flight
	stored
	firstDirty int64 // everything below it was compacted
	// relied is the end of what compaction has relied on: it removed records because of later ones
	// of their keys, or because their transactions ended. All of that was committed, so only an
	// unclean election discards it later.
	relied     int64
	storedHigh recoveredHigh
	acks       acks
	led        led
	movedFrom  atomic.Pointer[[16]byte] // see MovedFrom; nil: it was not moved
	cuts       int                      // how often the log end moved back
	changes    int64                    // see Changes
	holds      []*Hold                  // replaced, never changed
	retained   bool                     // holds have kept segments below the log start

	debt     debt
	attempts attempts // of compaction

	flawed          atomic.Bool // a segment has or had flaws; see Damages
	storing         atomic.Bool // the flaws are about to be committed
	partial         atomic.Bool // a repair left records out; see Whole
	absent          atomic.Pointer[Absent]
	lastSegmentRead atomic.Int64 // time of the last read from a segment, in Unix ns; 0: never
	wait            atomic.Pointer[waitSeries]
	scheduled       atomic.Bool // the log is in the directory's flush queue
	unsynced        bool        // the log is in Dir.unsynced
	committed       committed   // what the checkpoint has; guarded by Dir.ckptMu
	listed          bool        // the log is in memory.cachedLogs; guarded by memory.mu
}

func newLog(d *Dir, id ID, topic string, cfg Config) *Log {
	l := &Log{id: id, topic: topic, dir: d, stream: journal.NewStream(id), committed: committed{offset: -1}}
	l.path = path.Join(d.path, l.String())
	l.cfg.Store(&cfg)
	l.Observe(noopObserver{})
	l.queueState.init()
	l.fence.epoch = noEpoch
	l.producers = l.noProducers()
	l.unstable.aborted.Store(-1)
	l.noteUnstableLocked()
	l.storedHigh = recoveredHigh{-1, -1}
	return l
}

// ID returns the log's identity.
func (l *Log) ID() ID { return l.id }

// Topic returns the topic's name.
func (l *Log) Topic() string { return l.topic }

// Dir returns the log's directory.
func (l *Log) Dir() *Dir { return l.dir }

// String returns topic-partition, which is also the name of the log's directory.
func (l *Log) String() string { return fmt.Sprintf("%s-%d", l.topic, l.id.Partition) }

// Observe sets the log's only observer.
func (l *Log) Observe(o Observer) { l.obs.Store(&o) }

func (l *Log) observer() Observer { return *l.obs.Load() }

type noopObserver struct{}

func (noopObserver) Appended(*groupcommit.Batch) {}
func (noopObserver) Advanced()                   {}
func (noopObserver) Reverted(int64, error)       {}
func (noopObserver) Truncated(int64)             {}
func (noopObserver) StartMoved()                 {}
func (noopObserver) High() (int64, int32)        { return -1, -1 }
func (noopObserver) Copied() int64               { return math.MaxInt64 }
func (noopObserver) Deleted() int64              { return 0 }
func (noopObserver) Stable() int64               { return 0 }

// Size returns the bytes of record batches in the log, both in segments and in memory.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n int64
	for _, s := range l.segments {
		n += s.Size()
	}
	return n + l.tail.unflushedBytes()
}
