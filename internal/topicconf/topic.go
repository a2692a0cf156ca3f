package topicconf

import (
	"fmt"
	"math"
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
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	Preallocate        bool

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
		SegmentIndexBytes:  int32(f.value("segment.index.bytes").n),
		IndexIntervalBytes: int32(f.value("index.interval.bytes").n),
		Preallocate:        f.value("preallocate").b,
		MinInSyncReplicas:  int32(f.value("min.insync.replicas").n),
	}
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
	return t, nil
}

// milliseconds saturates: Kafka's "no limit" is the largest long.
func milliseconds(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
