package configdef

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Topic has the settings of one topic, typed and resolved: built once per config change, then read
// on the hot path. It is immutable.
type Topic struct {
	MaxMessageBytes int32 // largest batch, header included
	LogAppendTime   bool  // instead of the producer's timestamps
	// TimestampBefore and TimestampAfter bound the difference between a record's timestamp and the
	// broker's clock; the largest Duration means no bound.
	TimestampBefore, TimestampAfter time.Duration

	// Compression is the text of compression.type: producer, uncompressed, gzip, snappy, lz4 or
	// zstd.
	Compression string
	// CompressionLevel is the level of that codec; 0 if it has none.
	CompressionLevel int

	SegmentBytes       int32
	SegmentAge         time.Duration // from the first record to the roll
	SegmentJitter      time.Duration // maximum by which SegmentAge is shortened
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	Preallocate        bool

	// Delete and Compact are the elements of cleanup.policy.
	Delete, Compact bool
	Retention       time.Duration // negative: forever
	RetentionBytes  int64         // negative: no limit
	FileDeleteDelay time.Duration
	// MinDirty is the minimum fraction of a log, 0 to 1, that must be new for a compaction.
	MinDirty float64
	// MinLag is never above MaxLag, whose largest value means no limit.
	MinLag, MaxLag  time.Duration
	DeleteRetention time.Duration // of records without a value

	// Remote lets the object store have old records; NoCopies: it gets no more. Then the local
	// disks keep what LocalRetention and LocalRetentionBytes say, which are those for all records
	// or less.
	Remote, NoCopies bool
	// DropRemote: the records that only the object store has are to be deleted.
	DropRemote          bool
	LocalRetention      time.Duration // negative: forever
	LocalRetentionBytes int64         // negative: no limit

	// UncleanElection allows a replica that is not in sync to become leader if no other is left. It
	// has no effect on a partition with one replica.
	UncleanElection bool

	// DeadLetters lets share groups copy dead letters to the topic.
	DeadLetters bool

	// MinInSyncReplicas is min.insync.replicas, 0 if it is not set; see MinISR.
	MinInSyncReplicas int32

	// LeaderThrottled and FollowerThrottled are the replicas whose copies are bounded by LeaderRate
	// and FollowerRate.
	LeaderThrottled, FollowerThrottled Throttled

	Durability durability.Profile
}

// MinISR returns the effective min.insync.replicas of a partition: at most the number of its
// replicas, and if it is not set, a majority of them. Replicas that a reassignment adds do not
// count before they are in sync: otherwise a copy in progress would refuse appends.
func (t *Topic) MinISR(replicas int) int {
	n := int(t.MinInSyncReplicas)
	if n == 0 {
		n = majority(replicas)
	}
	return max(1, min(n, replicas))
}

func majority(replicas int) int { return replicas/2 + 1 }

// ResolveTopic returns the typed settings of a topic. For configs that the Check functions
// accepted, it fails only if the topic names a custom durability profile that was removed from the
// configuration.
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
		MinInSyncReplicas:  f.minISR(),
		DeadLetters:        f.value(deadLetterEnable).b,
		LeaderThrottled:    f.throttled("leader.replication.throttled.replicas"),
		FollowerThrottled:  f.throttled("follower.replication.throttled.replicas"),
	}
	if n := f.value("internal.segment.bytes").n; n > 0 {
		t.SegmentBytes = int32(max(n, 1<<20))
	}
	f.cleanup(&t)
	f.tier(&t)
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

// minISR reads min.insync.replicas, 0 if it is not set.
func (f *reader) minISR() int32 {
	if f.r.resolve(f.r.topic[MinInsyncReplicas], f.l).Source == SourceDefault {
		return 0
	}
	return int32(f.value(MinInsyncReplicas).n)
}

// cleanup reads the settings of retention and compaction.
func (f *reader) cleanup(t *Topic) {
	policy := f.value(CleanupPolicy).list
	t.Delete, t.Compact = slices.Contains(policy, "delete"), slices.Contains(policy, "compact")
	t.Retention = milliseconds(f.value("retention.ms").n)
	t.RetentionBytes = f.value("retention.bytes").n
	t.FileDeleteDelay = milliseconds(f.value("file.delete.delay.ms").n)
	t.MinDirty = f.value("min.cleanable.dirty.ratio").f
	t.MinLag = milliseconds(f.value(minLag).n)
	// A topic's own lag and a broker's default may contradict each other. Then the minimum wins,
	// because keeping records is a promise and removing them in time is not.
	t.MaxLag = max(milliseconds(f.value(maxLag).n), t.MinLag)
	t.DeleteRetention = milliseconds(f.value("delete.retention.ms").n)
	t.UncleanElection = f.value("unclean.leader.election.enable").b
}

// milliseconds saturates, because Kafka's "no limit" is the largest long.
func milliseconds(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
