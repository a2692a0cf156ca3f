package topicconf

import (
	"math"

	"github.com/chronik-io/chronik/pkg/durability"
)

// hour is an hour in milliseconds.
const hour = 3_600_000

// Texts of the compression types, in the order of Kafka's error message.
func compressionTypes() []string {
	return []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}
}

// topicDefs are the topic configs that chronik honours. Each is the default of
// its topics through a broker config of the synonym's name; brokerDefs derives
// those from here, so that both have one type and one set of bounds.
func topicDefs(p Profiles) []*Def {
	return append([]*Def{
		topicDef("max.message.bytes", Int, "1048588",
			"The largest record batch, in bytes, that a producer may write, after compression where the topic compresses; header included.",
			from("message.max.bytes"), atLeast(0)),
		topicDef("message.timestamp.type", String, "CreateTime",
			"Whether a record keeps the timestamp its producer gave it (CreateTime) or gets the time of the append (LogAppendTime).",
			from("log.message.timestamp.type"), oneOf("CreateTime", "LogAppendTime")),
		topicDef("message.timestamp.before.max.ms", Long, "9223372036854775807",
			"How far, in milliseconds, a record's timestamp may lie before the broker's clock. Not looked at with LogAppendTime.",
			from("log.message.timestamp.before.max.ms"), atLeast(0)),
		topicDef("message.timestamp.after.max.ms", Long, "3600000",
			"How far, in milliseconds, a record's timestamp may lie ahead of the broker's clock. Not looked at with LogAppendTime.",
			from("log.message.timestamp.after.max.ms"), atLeast(0)),
		topicDef("min.insync.replicas", Int, "1",
			"With acks=all, the number of in-sync replicas without which a produce is refused. Never more than the topic has replicas.",
			from("min.insync.replicas"), atLeast(1)),
		topicDef("cleanup.policy", List, "delete",
			"What happens to old segments. This version has delete only.",
			from("log.cleanup.policy"), oneOf("compact", "delete"), checked(deleteOnly)),
		topicDef(DurabilityProfile, String, durability.Default,
			"The durability profile: what must be true of a record's bytes on a replica before that replica counts, and who syncs when. "+
				"Takes effect between two commit groups.",
			from(DurabilityProfile), checked(func(d *Def, v value) error { return knownProfile(p, d, v) })),
	}, append(compressionDefs(), segmentDefs()...)...)
}

// DurabilityProfile is the name of the topic and broker config that chooses a
// durability.Profile.
const DurabilityProfile = "chronik.durability.profile"

func compressionDefs() []*Def {
	return []*Def{
		topicDef("compression.type", String, "producer",
			"The codec in which record batches are stored: producer keeps the one they came with, uncompressed none.",
			from("compression.type"), oneOf(compressionTypes()...)),
		topicDef("compression.gzip.level", Int, "-1",
			"The level of gzip, 1 (fast) to 9 (small), or -1 for the library's own, where compression.type is gzip.",
			from("compression.gzip.level"), checked(gzipLevel)),
		topicDef("compression.lz4.level", Int, "9",
			"The level of lz4, 1 (fast) to 17 (small), where compression.type is lz4.",
			from("compression.lz4.level"), between(1, 17)),
		topicDef("compression.zstd.level", Int, "3",
			"The level of zstd, -131072 (fast) to 22 (small), where compression.type is zstd.",
			from("compression.zstd.level"), between(-131072, 22)),
	}
}

func segmentDefs() []*Def {
	return []*Def{
		topicDef("segment.bytes", Int, "1073741824",
			"The size in bytes at which a new segment is begun.",
			from("log.segment.bytes"), atLeast(1<<20)),
		topicDef("segment.ms", Long, "604800000",
			"The age in milliseconds, counted from a segment's first record, at which a new segment is begun.",
			from("log.roll.ms"), fromScaled("log.roll.hours", hour), atLeast(1)),
		topicDef("segment.index.bytes", Int, "10485760",
			"The largest size in bytes of a segment's offset index; when it is full a new segment is begun.",
			from("log.index.size.max.bytes"), atLeast(4)),
		topicDef("index.interval.bytes", Int, "4096",
			"How many bytes of batches lie between two entries of a segment's indexes.",
			from("log.index.interval.bytes"), atLeast(0)),
		topicDef("preallocate", Boolean, "false",
			"Whether the blocks of a new segment are reserved on disk when it is begun.",
			from("log.preallocate")),
	}
}

func gzipLevel(d *Def, v value) error {
	if v.n == -1 || v.n >= 1 && v.n <= 9 {
		return nil
	}
	return d.invalid(d.format(v), "Value must be between 1 and 9 or equal to -1")
}

// deleteOnly refuses what this version cannot do. An empty policy means in Kafka
// that nothing is ever cleaned.
func deleteOnly(d *Def, v value) error {
	for _, e := range v.list {
		if e == "compact" {
			return d.invalid(d.format(v), "compaction is not available in this version")
		}
	}
	if len(v.list) == 0 {
		return d.invalid(d.format(v), "an empty policy is not available in this version")
	}
	return nil
}

func knownProfile(p Profiles, d *Def, v value) error {
	if _, err := p.Lookup(v.s); err != nil {
		return d.invalid(v.s, err.Error())
	}
	return nil
}

// foreignTopicDefs are the other topic configs of Apache Kafka 4.3, with type and
// bounds: a value that Kafka would refuse is refused in its words, any other
// because chronik does not act on it.
func foreignTopicDefs() []*Def {
	foreign := func(name string, t Type, opts ...option) *Def {
		return topicDef(name, t, "", "", append(opts, noDefault, notHonoured)...)
	}
	return []*Def{
		foreign("delete.retention.ms", Long, atLeast(0)),
		foreign("file.delete.delay.ms", Long, atLeast(0)),
		foreign("flush.messages", Long, atLeast(1)),
		foreign("flush.ms", Long, atLeast(0)),
		foreign("follower.replication.throttled.replicas", List),
		foreign("internal.segment.bytes", Int),
		foreign("leader.replication.throttled.replicas", List),
		foreign("local.retention.bytes", Long, atLeast(-2)),
		foreign("local.retention.ms", Long, atLeast(-2)),
		foreign("max.compaction.lag.ms", Long, atLeast(1)),
		foreign("min.cleanable.dirty.ratio", Double, fraction()),
		foreign("min.compaction.lag.ms", Long, atLeast(0)),
		foreign("remote.log.copy.disable", Boolean),
		foreign("remote.log.delete.on.disable", Boolean),
		foreign("remote.storage.enable", Boolean),
		foreign("retention.bytes", Long),
		foreign("retention.ms", Long, between(-1, math.MaxInt64)),
		foreign("segment.jitter.ms", Long, atLeast(0)),
		foreign("unclean.leader.election.enable", Boolean),
	}
}
