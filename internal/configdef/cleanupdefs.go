package configdef

import "fmt"

// minute is a minute in milliseconds.
const minute = 60_000

// CleanupPolicy is the name of the topic config that selects retention, compaction or both.
const CleanupPolicy = "cleanup.policy"

// Names of configs whose values are compared.
const (
	minLag = "min.compaction.lag.ms"
	maxLag = "max.compaction.lag.ms"

	brokerMinLag = "log.cleaner." + minLag
	brokerMaxLag = "log.cleaner." + maxLag
)

// retentionDefs are the configs of retention by time and size.
func retentionDefs() []*Def {
	return []*Def{
		topicDef(CleanupPolicy, List, "delete",
			"The retention policy of old segments: delete removes them by retention.ms and retention.bytes, compact keeps the last record of each key. "+
				"A list of both applies both, and an empty list keeps all records.",
			from("log.cleanup.policy"), checked(noGaps), oneOf("compact", "delete")),
		topicDef("retention.ms", Long, "604800000",
			"The minimum age in milliseconds at which cleanup.policy=delete removes a record, by its timestamp; -1 means no limit by time.",
			from("log.retention.ms"), fromScaled("log.retention.minutes", minute), fromScaled("log.retention.hours", hour), atLeast(-1)),
		topicDef("retention.bytes", Long, "-1",
			"The minimum size in bytes to which cleanup.policy=delete reduces a partition; below 0 means no limit by size.",
			from("log.retention.bytes")),
		topicDef("file.delete.delay.ms", Long, "60000",
			"The number of milliseconds for which the files of a deleted segment stay on disk under another name. "+
				"Reads that have begun can end meanwhile; the space is free afterwards.",
			from("log.segment.delete.delay.ms"), atLeast(0)),
	}
}

// compactionDefs are the configs of compaction.
func compactionDefs() []*Def {
	return []*Def{
		topicDef("min.cleanable.dirty.ratio", Double, "0.5",
			"The minimum fraction of a log, 0 to 1, that must be new since the last compaction before the log is compacted again.",
			from("log.cleaner.min.cleanable.ratio"), fraction()),
		topicDef(minLag, Long, "0",
			"The minimum number of milliseconds for which compaction keeps every record, by its timestamp.",
			from(brokerMinLag), atLeast(0)),
		topicDef(maxLag, Long, "9223372036854775807",
			"The age in milliseconds of an uncompacted record at which a log is compacted regardless of min.cleanable.dirty.ratio.",
			from(brokerMaxLag), atLeast(1)),
		topicDef("delete.retention.ms", Long, "86400000",
			"The number of milliseconds for which compaction keeps a tombstone, which is a record without a value. The time starts with the first pass that finds no later record of its key.",
			from("log.cleaner.delete.retention.ms"), atLeast(0)),
	}
}

// checkLags compares the two age limits of compaction if both are set: the default of each is valid
// with any value of the other.
func (r *Registry) checkLags(set map[string]string, lowest, highest string) error {
	low, hasLow := set[lowest]
	high, hasHigh := set[highest]
	if !hasLow || !hasHigh {
		return nil
	}
	from, errFrom := r.topic[minLag].parse(low)
	to, errTo := r.topic[maxLag].parse(high)
	if errFrom != nil || errTo != nil || from.n <= to.n {
		return nil
	}
	kind := "topic"
	if lowest != minLag {
		kind = "broker"
	}
	return &Error{lowest, fmt.Sprintf("conflict %s config setting %s (%d) > %s (%d)", kind, lowest, from.n, highest, to.n)}
}

func noGaps(d *Def, v value) error {
	if v.gaps {
		return &Error{d.Name, fmt.Sprintf("Configuration '%s' values must not be empty.", d.Name)}
	}
	return nil
}

// cleaningDefs are the broker configs of retention and compaction, except for the defaults of
// topics.
func cleaningDefs() []*Def {
	return []*Def{
		brokerDef("log.retention.check.interval.ms", Long, "300000",
			"The number of milliseconds between two checks of the logs for retention and compaction. "+
				"With a lower one, records are removed closer to their limits, and idle logs cost more.", atLeast(1)),
		brokerDef("log.cleaner.enable", Boolean, "true",
			"Whether logs are compacted. If false, logs with cleanup.policy=compact keep all records."),
		brokerDef("log.cleaner.backoff.ms", Long, "15000",
			"The number of milliseconds after which the broker checks again for a log to compact if there was none. Values below 100 count as 100.",
			dynamic(), atLeast(0)),
		brokerDef("log.cleaner.dedupe.buffer.size", Long, "134217728",
			"The memory in bytes for the keys of one compaction; the next pass handles keys that do not fit.", dynamic(),
			bounded("at least 1048576", enoughForKeys)),
		brokerDef("log.cleaner.io.max.bytes.per.second", Double, "1.7976931348623157E308",
			"The maximum number of bytes that all compactions together read and write per second. "+
				"The default means no limit; set one if compaction delays clients.", dynamic(),
			bounded("at least 1", positive)),
		brokerDef("log.cleaner.threads", Int, "1",
			"Accepted for compatibility, without effect: each log directory is compacted by one thread.",
			importance(Low), dynamic(), atLeast(1)),
		brokerDef("log.cleaner.io.buffer.size", Int, "524288",
			"Accepted for compatibility, without effect: compaction reads batch by batch.",
			importance(Low), dynamic(), atLeast(0)),
		brokerDef("log.cleaner.io.buffer.load.factor", Double, "0.9", "Accepted for compatibility, without effect: "+
			"the memory for keys grows with their number.", importance(Low), dynamic(), fraction()),
		brokerDef("chronik.log.scrub.interval.ms", Long, "604800000",
			"The number of milliseconds within which the broker reads each sealed segment, to find bytes that its disk has lost before a client needs them. "+
				"It reads little at a time while clients use the disk. -1 means that it reads none.", dynamic(), atLeast(-1)),
		brokerDef(DiskMinFree, Long, "-1",
			"The minimum free space of a log directory's file system in bytes; with less, the broker refuses clients' records. 0 means that it never refuses them, "+
				"-1 means 5 % of the file system, but at least 256 MiB and at most 1 GiB. It is never more than a quarter of the file system.",
			importance(High), dynamic(), atLeast(-1)),
	}
}

// dynamic marks a broker config that can change while the broker runs.
func dynamic() option { return func(d *Def) { d.Update = ClusterWide } }

// DiskMinFree is the name of the broker config for the minimum free disk space.
const DiskMinFree = "chronik.disk.min.free.bytes"

func enoughForKeys(d *Def, v value) error {
	if v.n < 1<<20 {
		return &Error{d.Name, d.Name + " must be at least 1MB per cleaner thread."}
	}
	return nil
}

func positive(d *Def, v value) error {
	if v.f < 1 {
		return d.invalid(d.format(v), "Value must be at least 1")
	}
	return nil
}

// otherUnits are the defaults of topics in a second or third unit. As in Kafka, they take effect at
// the next start.
func otherUnits() []*Def {
	minutes := brokerDef("log.retention.minutes", Int, "",
		"The value of retention.ms in minutes, used if log.retention.ms is not set; -1 means forever.",
		importance(High), noDefault, bounded(retentions, nonZeroRetention))
	hours := brokerDef("log.retention.hours", Int, "168",
		"The value of retention.ms in hours, used if neither log.retention.ms nor log.retention.minutes is set; -1 means forever.",
		importance(High), bounded(retentions, nonZeroRetention))
	return []*Def{
		minutes, hours,
		brokerDef("log.roll.hours", Int, "168", "The value of segment.ms in hours, used if log.roll.ms is not set.", importance(High),
			atLeast(1)),
		brokerDef("log.roll.jitter.hours", Int, "0", "The value of segment.jitter.ms in hours, used if log.roll.jitter.ms is not set.",
			importance(High), atLeast(0)),
	}
}

// retentions describes the values that nonZeroRetention accepts.
const retentions = "-1, or at least 1"

// nonZeroRetention refuses a default of 0, with which every record would expire at once. As in
// Kafka, a topic may use it, a broker may not.
func nonZeroRetention(d *Def, v value) error {
	if v.n == 0 {
		return &Error{d.Name, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"}
	}
	if v.n < -1 {
		return d.invalid(d.format(v), "Value must be at least -1")
	}
	return nil
}
