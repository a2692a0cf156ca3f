package configdef

import "fmt"

// minute is a minute in milliseconds.
const minute = 60_000

// CleanupPolicy is the name of the topic config that says what goes from a log.
const CleanupPolicy = "cleanup.policy"

// Names that are held against each other.
const (
	minLag = "min.compaction.lag.ms"
	maxLag = "max.compaction.lag.ms"

	brokerMinLag = "log.cleaner." + minLag
	brokerMaxLag = "log.cleaner." + maxLag
)

// retentionDefs say what goes from a log by time, by size and by policy.
func retentionDefs() []*Def {
	return []*Def{
		topicDef(CleanupPolicy, List, "delete",
			"What goes from a log: delete removes old segments by retention.ms and retention.bytes, compact keeps the last record of each key, "+
				"both together do both, and an empty list keeps everything.",
			from("log.cleanup.policy"), checked(noGaps), oneOf("compact", "delete")),
		topicDef("retention.ms", Long, "604800000",
			"With delete, how many milliseconds a record is kept at least, by its timestamp; -1 for ever.",
			from("log.retention.ms"), fromScaled("log.retention.minutes", minute), fromScaled("log.retention.hours", hour), atLeast(-1)),
		topicDef("retention.bytes", Long, "-1",
			"With delete, how many bytes of a partition are kept at least; below 0 any number.",
			from("log.retention.bytes")),
		topicDef("file.delete.delay.ms", Long, "60000",
			"How many milliseconds the files of a segment stay on the disk, under another name, after it went from its log.",
			from("log.segment.delete.delay.ms"), atLeast(0)),
	}
}

// compactionDefs say when a log is compacted, and what stays.
func compactionDefs() []*Def {
	return []*Def{
		topicDef("min.cleanable.dirty.ratio", Double, "0.5",
			"With compact, the part of a log, 0 to 1, that must be new since the last pass for another to be worth it.",
			from("log.cleaner.min.cleanable.ratio"), fraction()),
		topicDef(minLag, Long, "0",
			"With compact, the age in milliseconds below which no record is compacted away.",
			from(brokerMinLag), atLeast(0)),
		topicDef(maxLag, Long, "9223372036854775807",
			"With compact, the age in milliseconds of a record that was never looked at from which on a log is compacted whatever min.cleanable.dirty.ratio says.",
			from(brokerMaxLag), atLeast(1)),
		topicDef("delete.retention.ms", Long, "86400000",
			"With compact, how many milliseconds a record without a value stays after the pass that found it to be the last of its key.",
			from("log.cleaner.delete.retention.ms"), atLeast(0)),
	}
}

// checkLags holds the two ages of compaction together where both are set: the
// default of either fits any value of the other.
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

// cleaningDefs are the broker configs of what looks after logs, and of what cleans
// them, beside the defaults of topics.
func cleaningDefs() []*Def {
	return []*Def{
		brokerDef("log.retention.check.interval.ms", Long, "300000",
			"How often, in milliseconds, logs are looked at for what has to go, or is worth a compaction.", atLeast(1)),
		brokerDef("log.cleaner.enable", Boolean, "true",
			"Whether logs are compacted. Without it those with cleanup.policy=compact keep everything."),
		brokerDef("log.cleaner.backoff.ms", Long, "15000",
			"After how many milliseconds a log that is worth a compaction is looked for again where there was none; at least 100, whatever is set.",
			dynamic(), atLeast(0)),
		brokerDef("log.cleaner.dedupe.buffer.size", Long, "134217728",
			"The memory, in bytes, for the keys of one compaction; what does not fit is left to the next pass.", dynamic(), bounded("at least 1048576", enoughForKeys)),
		brokerDef("log.cleaner.io.max.bytes.per.second", Double, "1.7976931348623157E308",
			"How many bytes compaction reads and writes in a second at most, together.", dynamic(), bounded("at least 1", positive)),
		brokerDef("log.cleaner.threads", Int, "1", "Accepted, so that tools which set it work, and without effect: each log directory is compacted by one thread.",
			importance(Low), dynamic(), atLeast(1)),
		brokerDef("log.cleaner.io.buffer.size", Int, "524288", "Accepted, so that tools which set it work, and without effect: a compaction reads batch by batch.",
			importance(Low), dynamic(), atLeast(0)),
		brokerDef("log.cleaner.io.buffer.load.factor", Double, "0.9", "Accepted, so that tools which set it work, and without effect: "+
			"the memory for keys grows with the keys that it holds.", importance(Low), dynamic(), fraction()),
		brokerDef(DiskMinFree, Long, "-1",
			"The free bytes of a log directory's file system below which clients' records are refused: 0 never, "+
				"-1 at 5 % of the file system, but no less than 256 MiB and no more than 10 GiB.",
			importance(High), dynamic(), atLeast(-1)),
	}
}

// dynamic is a broker config that changes while the broker runs.
func dynamic() option { return func(d *Def) { d.Update = ClusterWide } }

// DiskMinFree is the name of the broker config that says how full a disk may get.
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

// otherUnits are the defaults of topics that come in a second or third unit. They
// need a restart, as in Kafka.
func otherUnits() []*Def {
	minutes := brokerDef("log.retention.minutes", Int, "", "The value of retention.ms in minutes, for where log.retention.ms is not set; -1 for ever.",
		importance(High), noDefault, bounded(retentions, someRetention))
	hours := brokerDef("log.retention.hours", Int, "168",
		"The value of retention.ms in hours, for where neither log.retention.ms nor log.retention.minutes is set; -1 for ever.",
		importance(High), bounded(retentions, someRetention))
	return []*Def{
		minutes, hours,
		brokerDef("log.roll.hours", Int, "168", "The value of segment.ms in hours, for where log.roll.ms is not set.", importance(High), atLeast(1)),
		brokerDef("log.roll.jitter.hours", Int, "0", "The value of segment.jitter.ms in hours, for where log.roll.jitter.ms is not set.",
			importance(High), atLeast(0)),
	}
}

// retentions says in words what someRetention accepts.
const retentions = "-1, or at least 1"

// someRetention refuses a default under which every record were old at once: a
// topic may ask for that, a broker may not, as in Kafka.
func someRetention(d *Def, v value) error {
	if v.n == 0 {
		return &Error{d.Name, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"}
	}
	if v.n < -1 {
		return d.invalid(d.format(v), "Value must be at least -1")
	}
	return nil
}
