package configdef

import (
	"slices"

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
		topicDef(DurabilityProfile, String, durability.Default,
			"The durability profile: what must be true of a record's bytes on a replica before that replica counts, and who syncs when. "+
				"Takes effect between two commit groups.",
			from(DurabilityProfile), bounded("the name of a durability profile", func(d *Def, v value) error { return knownProfile(p, d, v) })),
		topicDef("unclean.leader.election.enable", Boolean, "false",
			"Whether a replica that is not in sync may lead a partition that has no other left, which loses what it lacks. "+
				"A partition with one replica has none to choose from, so that it changes nothing for it.",
			from("unclean.leader.election.enable")),
	}, slices.Concat(flushDefs(), compressionDefs(), segmentDefs(), retentionDefs(), compactionDefs())...)
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
			from("compression.gzip.level"), bounded("-1, or 1 to 9", gzipLevel)),
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
		topicDef("segment.jitter.ms", Long, "0",
			"By how many milliseconds at most segment.ms is shortened, by another number for each segment, so that not all partitions begin new segments at once.",
			from("log.roll.jitter.ms"), fromScaled("log.roll.jitter.hours", hour), atLeast(0)),
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

func knownProfile(p Profiles, d *Def, v value) error {
	if _, err := p.Lookup(v.s); err != nil {
		return d.invalid(v.s, err.Error())
	}
	return nil
}
