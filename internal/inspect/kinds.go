package inspect

import "slices"

// Effect is what the broker does at startup if this is the only finding.
type Effect string

// The effects, from harmless to severe.
const (
	// Heals: the broker repairs it at startup, and nothing that was acknowledged is lost.
	Heals Effect = "heals"
	// Aside: the broker starts without it and keeps it; no log serves it.
	Aside Effect = "aside"
	// Serves: the broker does not notice it at startup. At a read there, or when it reads all
	// segments, the broker corrects it, or reports it and fails the reads.
	Serves Effect = "serves"
	// Offline: the partition stays offline, and the others are served.
	Offline Effect = "offline"
	// Refuses: no start of this directory succeeds.
	Refuses Effect = "refuses"
)

// Kind names a kind of finding. The names are stable.
type Kind string

// The kinds, as docs/log.md lists them.
const (
	IdentityMissing Kind = "identity-missing"
	IdentityDamaged Kind = "identity-damaged"
	FormatNewer     Kind = "format-newer"

	CheckpointMissing Kind = "checkpoint-missing"
	CheckpointDamaged Kind = "checkpoint-damaged"
	CheckpointForeign Kind = "checkpoint-foreign"
	CheckpointCopy    Kind = "checkpoint-copy"

	JournalIdentityMissing Kind = "journal-identity-missing"
	JournalIdentityDamaged Kind = "journal-identity-damaged"
	JournalForeign         Kind = "journal-foreign"
	JournalHalfReplaced    Kind = "journal-half-replaced"
	JournalMissing         Kind = "journal-missing"
	JournalFileMissing     Kind = "journal-file-missing"
	JournalFileForeign     Kind = "journal-file-foreign"
	JournalHeaderCopy      Kind = "journal-header-copy"
	JournalHeaderLost      Kind = "journal-header-lost"
	JournalFrameDamaged    Kind = "journal-frame-damaged"
	JournalTorn            Kind = "journal-torn"
	JournalOlder           Kind = "journal-older"

	FramesGap         Kind = "frames-gap"
	FramesUnknown     Kind = "frames-unknown"
	FramesKept        Kind = "frames-kept"
	FramesKeptMissing Kind = "frames-kept-missing"
	FramesKeptDamaged Kind = "frames-kept-damaged"

	LogOffline       Kind = "log-offline"
	LogMissing       Kind = "log-missing"
	ProducersDamaged Kind = "producers-damaged"

	PartitionMissing   Kind = "partition-missing"
	PartitionIDMissing Kind = "partition-id-missing"
	PartitionIDWrong   Kind = "partition-id-wrong"
	PartitionStray     Kind = "partition-stray"

	SegmentMissing  Kind = "segment-missing"
	SegmentShort    Kind = "segment-short"
	SegmentTail     Kind = "segment-tail"
	SegmentUnlisted Kind = "segment-unlisted"
	SwapUnfinished  Kind = "swap-unfinished"
	BatchDamaged    Kind = "batch-damaged"
	BatchOffset     Kind = "batch-offset"
	BatchEpoch      Kind = "batch-epoch"
	IndexMissing    Kind = "index-missing"
	IndexDamaged    Kind = "index-damaged"

	MetadataMissing Kind = "metadata-missing"
	MetadataDamaged Kind = "metadata-damaged"
	MetadataOlder   Kind = "metadata-older"
	MetadataTorn    Kind = "metadata-torn"
	MemberDamaged   Kind = "member-damaged"
	MemberMissing   Kind = "member-missing"

	Leftover   Kind = "leftover"
	Unreadable Kind = "unreadable"
)

// About describes a kind of finding.
type About struct {
	Kind   Kind
	Effect Effect
	Means  string // what it is, and how it is detected
	Start  string // what the broker does at startup
	Repair string // what a repair does; empty: nothing
	Costs  string // what the repair loses; without a repair, what an operator can do
}

// Kinds returns all kinds, in the order of the page.
func Kinds() []About {
	return slices.Concat(directoryKinds(), journalKinds(), logKinds(), segmentKinds(), otherKinds())
}

// Of returns the description of a kind.
func Of(k Kind) About {
	all := Kinds()
	if i := slices.IndexFunc(all, func(a About) bool { return a.Kind == k }); i >= 0 {
		return all[i]
	}
	return About{Kind: k}
}

const (
	refuses  = "refuses to start and changes nothing"
	nothing  = "nothing"
	toBackup = "" // no repair; the finding says what to restore
	offline  = "takes the partition offline and serves the others"

	oneBackup = "restore the directory and its journal from the same backup"
)

func directoryKinds() []About {
	const (
		byCopy      = "replaces it with `checkpoint.copy/`, if that is complete and matches the journal"
		costsOfCopy = "nothing; if the copy cannot be used, " + oneBackup
	)
	return []About{
		{IdentityMissing, Refuses, "`chronik.dir` is missing from a directory that was used", refuses,
			"rebuilds it from the checkpoint, which holds the same ids", nothing},
		{IdentityDamaged, Refuses, "`chronik.dir` does not match its checksum", refuses, "rebuilds it from the checkpoint", nothing},
		{FormatNewer, Refuses, "a file has a format version that this program does not know", refuses, toBackup,
			"nothing; start the version that wrote it"},
		{CheckpointMissing, Refuses, "there are partitions or journal files, but `checkpoint/` or a file in it is missing", refuses, byCopy,
			costsOfCopy},
		{CheckpointDamaged, Refuses, "a file in `checkpoint/` does not match its checksums or cannot be decoded", refuses, byCopy,
			costsOfCopy},
		{CheckpointForeign, Refuses, "the checkpoint names other ids than `chronik.dir`", refuses, toBackup,
			"nothing, if you restore files that belong together"},
		{CheckpointCopy, Heals, "`checkpoint.copy/` or a file in it is missing or damaged; only a repair reads it", "writes it again", "",
			nothing},
	}
}

func journalKinds() []About {
	const salvage = "copies the readable frames of the journal to a quarantine file for each partition, and begins a new journal"
	return []About{
		{JournalIdentityMissing, Refuses, "`chronik.journal` is missing, but the journal's files exist", refuses,
			"rebuilds it from `chronik.dir`", nothing},
		{JournalIdentityDamaged, Refuses, "`chronik.journal` does not match its checksum", refuses, "rebuilds it from `chronik.dir`",
			nothing},
		{JournalForeign, Refuses, "`chronik.journal` belongs to another log directory", refuses, toBackup,
			"nothing; set `journal.dirs` (`--journal`) to the journal of this directory"},
		{JournalHalfReplaced, Refuses, "a repair was interrupted while it replaced the journal: the files name two journals", refuses,
			"completes it with the readable frames of the old journal", "the unreadable frames of the old journal"},
		{JournalMissing, Refuses, "the journal's directory is empty", refuses, "begins a new journal after the end of the segments",
			"all records that only the journal held"},
		{JournalFileMissing, Refuses, "a file that recovery needs is missing, or later files do not continue an earlier one", refuses,
			salvage, "the records that only that file held"},
		{JournalFileForeign, Refuses, "a file belongs to another journal", refuses, "renames the file", nothing},
		{JournalHeaderCopy, Heals, "one of the two copies of a file's header is damaged", "reads the other copy", "", nothing},
		{JournalHeaderLost, Refuses, "both copies of a file's header are damaged, and the file holds synced frames", refuses, salvage,
			nothing},
		{JournalFrameDamaged, Refuses, "a frame is invalid, and a later one proves that it was synced", refuses, salvage,
			"the records of that frame"},
		{JournalTorn, Heals, "the last write is incomplete: it was never acknowledged as synced", "ends the journal there", "",
			"nothing (a flipped bit in the last synced group looks the same)"},
		{JournalOlder, Refuses,
			"the journal ends before an LSN that the checkpoint records as durable: it is an older copy, or files are missing", refuses,
			salvage, "all later records"},
		{FramesUnknown, Aside, "the journal has frames of a log that the checkpoint does not list",
			"quarantines them in `unknown-….frames`", "", nothing},
	}
}

func logKinds() []About {
	return []About{
		{LogOffline, Offline, "the checkpoint records that the broker found the partition damaged at startup", offline,
			"puts it online with the remaining records, after repairing the causes", "nothing, except what the repair of each cause loses"},
		{LogMissing, Offline, "the metadata places the partition here, but the checkpoint does not list it", offline, toBackup,
			"its records, unless you restore this directory and the metadata from the same backup; otherwise delete the topic"},
		{ProducersDamaged, Offline, "the state of producers and transactions in the checkpoint cannot be decoded", offline,
			"rebuilds it from the segments", "no records; producers whose batches were all removed are forgotten"},
		{FramesGap, Offline, "the journal's frames do not continue the segments", offline, "continues after the gap",
			"the offsets of the gap"},
		{FramesKept, Aside, "frames were quarantined in a file, and no log replays them", "ignores them",
			"replays them if their log is offline and they continue it", nothing},
		{FramesKeptMissing, Offline, "the quarantine file of an offline log is missing", offline, "continues without it", "its frames"},
		{FramesKeptDamaged, Offline, "the quarantine file of an offline log is damaged", offline, "continues with its valid frames",
			"the other frames"},
		{PartitionMissing, Offline, "the directory of a partition is missing", offline,
			"creates an empty partition that continues at the known end", "all records in its segments"},
		{PartitionIDMissing, Heals, "`partition.metadata` is missing; only the deletion of the partition reads it", "does not need it",
			"writes it again", nothing},
		{PartitionIDWrong, Heals, "`partition.metadata` has another topic's id, or cannot be read", "does not need it",
			"writes it again", nothing},
		{PartitionStray, Aside, "a partition directory that the checkpoint does not list", "renames it to `…-stray` and ignores it", "",
			nothing},
	}
}

func segmentKinds() []About {
	const reads = "notices it at a read or when it reads all segments, and reports it; a read there fails with CORRUPT_MESSAGE"
	return []About{
		{SegmentMissing, Offline, "a segment that the checkpoint lists is missing", offline, "continues without it", "its offsets"},
		{SegmentShort, Offline, "a segment is shorter than the checkpoint says", offline, "continues with its whole batches",
			"the missing offsets"},
		{SegmentTail, Heals, "a segment has bytes beyond its size in the checkpoint: not acknowledged, or also in the journal",
			"truncates the segment", "", nothing},
		{SegmentUnlisted, Heals, "a segment that the checkpoint does not list", "ignores or removes it", "", nothing},
		{SwapUnfinished, Heals, "a compaction was interrupted while it replaced segments", "completes the replacement", "", nothing},
		{BatchDamaged, Serves, "stored bytes are not a valid record batch", reads, "rewrites the segment without them",
			"the offsets of the batch"},
		{BatchOffset, Serves, "a batch is valid, but its offset, which no checksum covers, is impossible there",
			"corrects it, at a read or when it reads all segments, if only one offset is possible; otherwise does the same as for a " +
				"damaged batch",
			"renumbers it if only one offset is possible, otherwise leaves it out",
			"nothing, or the offsets of the batch if it is left out"},
		{BatchEpoch, Serves, "a batch is valid, but the checkpoint has another leader epoch for that offset",
			"corrects it, at a read or when it reads all segments", "writes the epoch of the checkpoint", nothing},
		{IndexMissing, Heals, "an index of a segment is missing", "rebuilds it when it is needed", "", nothing},
		{IndexDamaged, Heals, "an index does not match the batches", "discards the wrong entries", "", nothing},
	}
}

func otherKinds() []About {
	const (
		byCopy = "replaces it with the copy in a log directory, `metadata.copy/`; " +
			"creates topics that the copy lacks, or all topics if there is no copy, from the logs"
		costs = "nothing, if the copy is complete. Otherwise the configs of topics that are created from their logs; " +
			"without a copy, also the configs of brokers and groups and the cluster id"
	)
	return []About{
		{MetadataMissing, Refuses, "a file of the metadata is missing", refuses, byCopy, costs},
		{MetadataDamaged, Refuses, "a file of the metadata is damaged", refuses, byCopy, costs},
		{MetadataOlder, Refuses, "the metadata ends before its copy does: an older version of it was restored", refuses,
			"replaces it with the copy; in a cluster none, but `chronikd recover --from` the copy", nothing},
		{MetadataTorn, Heals, "the last transaction is incomplete: it was never acknowledged", "truncates the file", "", nothing},
		{MemberDamaged, Refuses, "a file of the metadata of a broker in a cluster is damaged", refuses, "",
			"nothing, if a majority of the voters has whole metadata: move `metadata/` away, keep the log directories, and start the broker; " +
				"it joins as another member and copies the metadata. Otherwise [recover](cluster.md#recover-lost-metadata)"},
		{MemberMissing, Refuses, "the log directories belong to a cluster, and the metadata of this broker are missing",
			"joins the cluster again, if another broker has the metadata, and copies them", "",
			"nothing, if another broker has the metadata: start the broker. If none has, the copy in a log directory: `chronikd recover " +
				"--from` with the configuration of this broker"},
		{Leftover, Heals, "a file that a crash or a deletion left behind", "removes or replaces it", "", nothing},
		{Unreadable, Offline, "the system returns an error for a read",
			"does the same as for a damaged file of that kind; for a segment, takes the partition offline", toBackup,
			"the contents of that file; copy the other files to another disk, and verify that copy"},
	}
}
