package inspect

import "slices"

// Effect is what a start does about a finding by itself.
type Effect string

// The effects, from harmless to bad.
const (
	// Heals: a start puts it right, and nothing that was acknowledged is lost.
	Heals Effect = "heals"
	// Aside: a start goes on without it and keeps it; no log serves it.
	Aside Effect = "aside"
	// Serves: a start does not notice, and reads there fail, are wrong or find nothing.
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

	Leftover   Kind = "leftover"
	Unreadable Kind = "unreadable"
)

// About is what there is to know of a kind.
type About struct {
	Kind   Kind
	Effect Effect
	Means  string // what it is, and how it is found
	Start  string // what a start does
	Repair string // what a repair does; empty: nothing
	Costs  string // what is lost by that
}

// Kinds returns all kinds, in the order of the page.
func Kinds() []About {
	return slices.Concat(directoryKinds(), journalKinds(), logKinds(), segmentKinds(), otherKinds())
}

// Of returns what there is to know of a kind.
func Of(k Kind) About {
	all := Kinds()
	if i := slices.IndexFunc(all, func(a About) bool { return a.Kind == k }); i >= 0 {
		return all[i]
	}
	return About{Kind: k}
}

const (
	refuses  = "refuses, and changes nothing"
	nothing  = "nothing"
	toBackup = "" // no repair; the finding says what to restore
	offline  = "takes the partition offline, and serves the others"

	oneBackup = "restore the directory, with its journal, from one backup"
)

func directoryKinds() []About {
	const (
		byCopy      = "puts `checkpoint.copy/` in its place, if that is whole and the journal fits it"
		costsOfCopy = "nothing; where that cannot be: " + oneBackup
	)
	return []About{
		{IdentityMissing, Refuses, "`chronik.dir` is gone from a directory that was used", refuses, "writes it anew from the checkpoint, which holds the same ids", nothing},
		{IdentityDamaged, Refuses, "`chronik.dir` does not match its checksum", refuses, "writes it anew from the checkpoint", nothing},
		{FormatNewer, Refuses, "a file has a format version that this program doesn't know", refuses, toBackup, "nothing: use the version that wrote it"},
		{CheckpointMissing, Refuses, "there are partitions or journal files, and `checkpoint/` or a file in it is gone", refuses, byCopy, costsOfCopy},
		{CheckpointDamaged, Refuses, "a file in `checkpoint/` does not match its checksums, or cannot be decoded", refuses, byCopy, costsOfCopy},
		{CheckpointForeign, Refuses, "the checkpoint names other ids than `chronik.dir`", refuses, toBackup, "put each file back where it belongs"},
		{CheckpointCopy, Heals, "`checkpoint.copy/` or a file in it is gone or damaged; only a repair reads it", "writes it anew", "", nothing},
	}
}

func journalKinds() []About {
	const salvage = "copies what can be read of the journal beside it, for each partition, and begins a new one"
	return []About{
		{JournalIdentityMissing, Refuses, "`chronik.journal` is gone, and the journal's files are there", refuses, "writes it anew from `chronik.dir`", nothing},
		{JournalIdentityDamaged, Refuses, "`chronik.journal` does not match its checksum", refuses, "writes it anew from `chronik.dir`", nothing},
		{JournalForeign, Refuses, "`chronik.journal` is that of another log directory", refuses, toBackup, "nothing: set `journal.dirs` (`--journal`) to the place that belongs to it"},
		{JournalHalfReplaced, Refuses, "a repair that gave the journal up was interrupted: the ids of two journals stand in the files", refuses, "brings it to its end, with what can be read of the old journal", "what could not be read of it"},
		{JournalMissing, Refuses, "the journal's place is empty", refuses, "begins a new one behind what the segments hold", "all that was in the journal only"},
		{JournalFileMissing, Refuses, "a file that is needed is not there, or later ones don't continue an earlier one", refuses, salvage, "what was in that file only"},
		{JournalFileForeign, Refuses, "a file belongs to another journal", refuses, "takes the file out of the way, under another name", nothing},
		{JournalHeaderCopy, Heals, "one of the two copies of a file's header is damaged", "reads the other one", "", nothing},
		{JournalHeaderLost, Refuses, "both copies of a file's header are damaged, and it holds frames that were synced", refuses, salvage, nothing},
		{JournalFrameDamaged, Refuses, "a frame is invalid, and a later one knew it to be synced", refuses, salvage, "the records of that frame"},
		{JournalTorn, Heals, "the last write did not come to its end: nobody was told that it is durable", "ends there", "", "nothing (a flipped bit in the last synced group looks the same)"},
		{JournalOlder, Refuses, "it ends before what the checkpoint knows to be durable: a copy from before, or files are missing", refuses, salvage, "what came after it"},
		{FramesUnknown, Aside, "the journal has frames of a log that no checkpoint knows", "keeps them in `unknown-….frames`", "", nothing},
	}
}

func logKinds() []About {
	return []About{
		{LogOffline, Offline, "the checkpoint says that a start found the partition damaged", offline, "puts it online with what is there, once the causes are mended", "what the causes cost"},
		{LogMissing, Offline, "the metadata says that the partition is here, and the checkpoint doesn't know it", offline, toBackup, "restore this directory and the metadata from one backup, or delete the topic"},
		{ProducersDamaged, Offline, "the state of idempotent producers in the checkpoint cannot be decoded", offline, "forgets it", "no records; a producer's retry from before is not recognised as one"},
		{FramesGap, Offline, "the journal's frames don't continue what the segments hold", offline, "goes on behind the gap", "the offsets of the gap"},
		{FramesKept, Aside, "frames were kept in a file, and no log takes them", "leaves them alone", "gives them to their log where it is offline and they belong behind what it has", nothing},
		{FramesKeptMissing, Offline, "the file with the frames of a log that was offline is gone", offline, "goes on without them", "what was in it"},
		{FramesKeptDamaged, Offline, "that file is damaged", offline, "goes on with the frames that are whole", "the others"},
		{PartitionMissing, Offline, "the directory of a partition is gone", offline, "makes an empty one that goes on at the end that is known", "all that was in its segments"},
		{PartitionIDMissing, Heals, "`partition.metadata` is gone; only the deletion of the partition reads it", "does not need it", "writes it anew", nothing},
		{PartitionIDWrong, Heals, "`partition.metadata` has another topic's id", "does not need it", "writes it anew", nothing},
		{PartitionStray, Aside, "a partition directory that no checkpoint knows", "renames it to `…-stray`, and leaves it alone", "", nothing},
	}
}

func segmentKinds() []About {
	const reads = "does not notice; a read there answers CORRUPT_MESSAGE"
	return []About{
		{SegmentMissing, Offline, "a segment that the checkpoint lists is gone", offline, "goes on without it", "its offsets"},
		{SegmentShort, Offline, "a segment is shorter than the checkpoint says", offline, "goes on with the whole batches that are there", "the offsets that are not"},
		{SegmentTail, Heals, "bytes behind what the checkpoint says: not acknowledged, or in the journal too", "cuts them off", "", nothing},
		{SegmentUnlisted, Heals, "a segment that the checkpoint doesn't list", "ignores or removes it", "", nothing},
		{SwapUnfinished, Heals, "a compaction was about to put a segment in its place", "finishes that", "", nothing},
		{BatchDamaged, Serves, "stored bytes are no valid record batch", reads, "writes the segment anew without them", "the offsets of the batch"},
		{BatchOffset, Serves, "a batch is whole, but its offset, which no checksum covers, cannot stand there", reads, "numbers it again if one number fits, else takes it out", "nothing, else the offsets of the batch"},
		{BatchEpoch, Serves, "a batch is whole, but carries another leader epoch than the checkpoint knows for its offset", "does not notice; it is served like that", "writes the epoch that the checkpoint knows", nothing},
		{IndexMissing, Heals, "an index of a segment is gone", "makes it anew as it is needed", "", nothing},
		{IndexDamaged, Heals, "an index says what the batches don't", "drops the entries that are wrong", "", nothing},
	}
}

func otherKinds() []About {
	const (
		byCopy = "puts the copy from a log directory, `metadata.copy/`, in its place; topics that it lacks, or all without a copy, are made of the logs"
		costs  = "nothing, if the copy has all; of topics that are made of their logs the configs, without a copy those of brokers and groups and the cluster id, too"
	)
	return []About{
		{MetadataMissing, Refuses, "a file of the metadata is gone", refuses, byCopy, costs},
		{MetadataDamaged, Refuses, "a file of the metadata is not what was written", refuses, byCopy, costs},
		{MetadataOlder, Refuses, "the metadata ends before its copy does: it was put back from an older time", refuses, "puts the copy in its place", nothing},
		{MetadataTorn, Heals, "the last transaction did not come to its end: nobody was told that it was made", "cuts it off", "", nothing},
		{Leftover, Heals, "a file that a crash or a deletion left", "removes or replaces it", "", nothing},
		{Unreadable, Offline, "the system answers a read with an error", "depends on what cannot be read", toBackup, "copy what can be read to another disk, and look at that"},
	}
}
