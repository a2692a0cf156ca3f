package configdef

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Topic is what holds for one topic, typed and resolved: built once per change
// of a config, then read field by field on the hot path. It is immutable.
type Topic struct {
	MaxMessageBytes int32 // largest batch, header included
	LogAppendTime   bool  // instead of the producer's timestamps
	// TimestampBefore and TimestampAfter bound how far a record's timestamp may
	// lie from the broker's clock; the largest Duration means no bound.
	TimestampBefore, TimestampAfter time.Duration

	// Compression is the text of compression.type: producer, uncompressed, gzip,
	// snappy, lz4 or zstd.
	Compression string
	// CompressionLevel is on the scale of that codec; 0 where it has none.
	CompressionLevel int

	SegmentBytes       int32
	SegmentAge         time.Duration // from the first record to the roll
	SegmentJitter      time.Duration // at most so much less
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	Preallocate        bool

	// Delete and Compact are the elements of cleanup.policy.
	Delete, Compact bool
	Retention       time.Duration // negative: for ever
	RetentionBytes  int64         // negative: any number
	FileDeleteDelay time.Duration
	// MinDirty is the part of a log, 0 to 1, that must be new for a compaction.
	MinDirty float64
	// MinLag is never more than MaxLag, whose largest value means none.
	MinLag, MaxLag  time.Duration
	DeleteRetention time.Duration // of records without a value

	// UncleanElection lets a replica that is not in sync lead when no other is
	// left. Nobody can be elected while a partition has one replica.
	UncleanElection bool

	MinInSyncReplicas int32 // to be capped by the replication factor
	Durability        durability.Profile
}

// ResolveTopic builds the typed configs of a topic. What the Check functions
// accepted cannot fail here, unless a custom durability profile that a topic
// names is gone from the configuration.
func (r *Registry) ResolveTopic(l Layers) (Topic, error) {
	f := reader{r: r, defs: r.topic, l: l}
	t := Topic{
		MaxMessageBytes:    int32(f.value("max.message.bytes").n),
		LogAppendTime:      f.value("message.timestamp.type").s == "LogAppendTime",
		TimestampBefore:    milliseconds(f.value("message.timestamp.before.max.ms").n),
		TimestampAfter:     milliseconds(f.value("message.timestamp.after.max.ms").n),
		Compression:        f.value("compression.type").s,
		SegmentBytes:       int32(f.value("segment.bytes").n),
		SegmentAge:         milliseconds(f.value("segment.ms").n),
		SegmentJitter:      milliseconds(f.value("segment.jitter.ms").n),
		SegmentIndexBytes:  int32(f.value("segment.index.bytes").n),
		IndexIntervalBytes: int32(f.value("index.interval.bytes").n),
		Preallocate:        f.value("preallocate").b,
		MinInSyncReplicas:  int32(f.value("min.insync.replicas").n),
	}
	f.cleanup(&t)
	switch t.Compression {
	case "gzip", "lz4", "zstd":
		t.CompressionLevel = int(f.value("compression." + t.Compression + ".level").n)
	}
	name := f.value(DurabilityProfile).s
	if f.err != nil {
		return Topic{}, f.err
	}
	var err error
	if t.Durability, err = r.profiles.Lookup(name); err != nil {
		return Topic{}, fmt.Errorf("%s: %w", DurabilityProfile, err)
	}
	t.Durability, err = f.synced(t.Durability)
	return t, err
}

// cleanup reads what says when records go.
func (f *reader) cleanup(t *Topic) {
	policy := f.value(CleanupPolicy).list
	t.Delete, t.Compact = slices.Contains(policy, "delete"), slices.Contains(policy, "compact")
	t.Retention = milliseconds(f.value("retention.ms").n)
	t.RetentionBytes = f.value("retention.bytes").n
	t.FileDeleteDelay = milliseconds(f.value("file.delete.delay.ms").n)
	t.MinDirty = f.value("min.cleanable.dirty.ratio").f
	t.MinLag = milliseconds(f.value(minLag).n)
	// A topic's own lag and a broker's default may contradict each other. That a
	// record is kept is the promise; that it goes in time is none.
	t.MaxLag = max(milliseconds(f.value(maxLag).n), t.MinLag)
	t.DeleteRetention = milliseconds(f.value("delete.retention.ms").n)
	t.UncleanElection = f.value("unclean.leader.election.enable").b
}

// milliseconds saturates: Kafka's "no limit" is the largest long.
func milliseconds(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
