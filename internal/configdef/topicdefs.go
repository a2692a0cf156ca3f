package configdef

import (
	"slices"

	"github.com/chronik-io/chronik/pkg/durability"
)

// hour is an hour in milliseconds.
const hour = 3_600_000

// compressionTypes returns the values of compression.type, in the order of Kafka's error message.
func compressionTypes() []string {
	return []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}
}

// topicDefs returns the topic configs that chronik uses. Broker configs with the synonyms' names
// set their defaults; brokerDefs derives those from here, so that both have the same type and
// bounds.
func topicDefs(p Profiles) []*Def {
	return append([]*Def{
		topicDef("max.message.bytes", Int, "1048588",
			"The largest record batch that a producer may write, in bytes with header, after compression if the topic is compressed.",
			from("message.max.bytes"), atLeast(0)),
		topicDef("message.timestamp.type", String, "CreateTime",
			"Whether a record keeps its producer's timestamp (CreateTime) or gets the time of the append (LogAppendTime). "+
				"With LogAppendTime, wrong clocks of clients cannot delay or hasten retention.",
			from("log.message.timestamp.type"), oneOf("CreateTime", "LogAppendTime")),
		topicDef("message.timestamp.before.max.ms", Long, "9223372036854775807",
			"The maximum number of milliseconds by which a record's timestamp may be before the broker's clock. Ignored with LogAppendTime.",
			from("log.message.timestamp.before.max.ms"), atLeast(0)),
		topicDef("message.timestamp.after.max.ms", Long, "3600000",
			"The maximum number of milliseconds by which a record's timestamp may be ahead of the broker's clock. Ignored with LogAppendTime.",
			from("log.message.timestamp.after.max.ms"), atLeast(0)),
		topicDef(MinInsyncReplicas, Int, "1",
			"The minimum number of in-sync replicas for a produce with acks=all; with fewer it is refused. Capped by the number of replicas. "+
				"If it is not set, it is more than half of the topic's replicas: 1 of 1, 2 of 3, 3 of 5.",
			from(MinInsyncReplicas), atLeast(1)),
		topicDef(DurabilityProfile, String, durability.Default,
			"The durability profile. It defines what must be true of a record's bytes on a replica before that replica counts for the acknowledgement, and when the bytes are synced. "+
				"A change takes effect between two group commits.",
			from(DurabilityProfile), bounded("the name of a durability profile",
				func(d *Def, v value) error { return knownProfile(p, d, v) })),
		topicDef("unclean.leader.election.enable", Boolean, "false",
			"Whether a replica that is not in sync may become leader if no other is left, which loses the records that it lacks. "+
				"It has no effect on a partition with one replica.",
			from("unclean.leader.election.enable")),
	}, slices.Concat(topicDeadLetterDefs(), throttleDefs(),
		flushDefs(), compressionDefs(), segmentDefs(), retentionDefs(), tierDefs(), compactionDefs())...)
}

// MinInsyncReplicas is the name of the topic and broker config whose default depends on the number
// of replicas; see Topic.MinISR.
const MinInsyncReplicas = "min.insync.replicas"

// DurabilityProfile is the name of the topic and broker config that selects a durability.Profile.
const DurabilityProfile = "chronik.durability.profile"

func compressionDefs() []*Def {
	return []*Def{
		topicDef("compression.type", String, "producer",
			"The codec in which record batches are stored: producer keeps the producer's codec, uncompressed stores them uncompressed.",
			from("compression.type"), oneOf(compressionTypes()...)),
		topicDef("compression.gzip.level", Int, "-1",
			"The level of gzip, 1 (fast) to 9 (small), or -1 for the library's default; used if compression.type is gzip.",
			from("compression.gzip.level"), bounded("-1, or 1 to 9", gzipLevel)),
		topicDef("compression.lz4.level", Int, "9",
			"The level of lz4, 1 (fast) to 17 (small); used if compression.type is lz4.",
			from("compression.lz4.level"), between(1, 17)),
		topicDef("compression.zstd.level", Int, "3",
			"The level of zstd, -131072 (fast) to 22 (small); used if compression.type is zstd.",
			from("compression.zstd.level"), between(-131072, 22)),
	}
}

func segmentDefs() []*Def {
	return []*Def{
		topicDef("segment.bytes", Int, "1073741824",
			"The size in bytes at which the active segment is rolled. "+
				"Only rolled segments are deleted or compacted, so smaller ones keep closer to the limits of retention, in more files.",
			from("log.segment.bytes"), atLeast(1<<20)),
		topicDef("internal.segment.bytes", Int, "",
			"Replaces segment.bytes if it is set, but is at least 1048576; Kafka and its Streams use it in tests.",
			noDefault, internal),
		topicDef("segment.ms", Long, "604800000",
			"The age in milliseconds, from a segment's first record, at which the active segment is rolled. "+
				"Only rolled segments are deleted or compacted.",
			from("log.roll.ms"), fromScaled("log.roll.hours", hour), atLeast(1)),
		topicDef("segment.jitter.ms", Long, "0",
			"The maximum number of milliseconds by which segment.ms is shortened, at random for each segment, so that partitions do not all roll at once.",
			from("log.roll.jitter.ms"), fromScaled("log.roll.jitter.hours", hour), atLeast(0)),
		topicDef("segment.index.bytes", Int, "10485760",
			"The maximum size in bytes of a segment's offset index; a full index rolls the segment.",
			from("log.index.size.max.bytes"), atLeast(4)),
		topicDef("index.interval.bytes", Int, "4096",
			"The number of bytes of batches between two entries of a segment's indexes. "+
				"With a smaller one, a search by offset or time reads less, and the indexes are larger.",
			from("log.index.interval.bytes"), atLeast(0)),
		topicDef("preallocate", Boolean, "false",
			"Whether the disk blocks of a new segment are preallocated. "+
				"It saves allocations during appends, and takes the space of a whole segment at once.",
			from("log.preallocate")),
	}
}

func gzipLevel(d *Def, v value) error {
	if v.n == -1 || v.n >= 1 && v.n <= 9 {
		return nil
	}
	return d.invalid(d.format(v), "Value must be between 1 and 9 or equal to -1")
}

func knownProfile(p Profiles, d *Def, v value) error {
	if _, err := p.Lookup(v.s); err != nil {
		return d.invalid(v.s, err.Error())
	}
	return nil
}
