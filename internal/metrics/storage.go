package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reasons of reads counted by Storage.Reads.
const (
	ReadFromCache = "cache" // answered out of the tail cache
	ReadFromDisk  = "disk"  // answered by pread from a segment
)

// Storage is what logs and journals report. The label dir is the path of a log
// directory as the configuration names it; the label profile is the name of a
// durability profile, so both have few values.
type Storage struct {
	// GroupRecords, GroupBytes and SyncSeconds observe once per journal group:
	// the entries that one fdatasync made durable. By dir.
	GroupRecords, GroupBytes, SyncSeconds *prometheus.HistogramVec
	// WaitSeconds observes once per appended group of a partition: from the
	// moment it was queued until its profile's condition held. By profile.
	WaitSeconds *prometheus.HistogramVec
	// Online is 1 for a log directory that takes writes, else 0. By dir.
	Online *prometheus.GaugeVec
	// JournalErrors and SegmentErrors count failed calls to the disk. By dir.
	JournalErrors, SegmentErrors *prometheus.CounterVec
	// Sweeps counts checkpoint sweeps, Rolls new segments. By dir.
	Sweeps, Rolls *prometheus.CounterVec
	// TruncatedBytes counts bytes that recovery cut off segments. By dir.
	TruncatedBytes *prometheus.CounterVec
	// RecoveryFrames and RecoveryBytes grow while a start reads the journal.
	// By dir.
	RecoveryFrames, RecoveryBytes *prometheus.CounterVec
	// RecoverySeconds is how long the last recovery took. By dir.
	RecoverySeconds *prometheus.GaugeVec
	// Reads counts log reads by source: ReadFromCache, ReadFromDisk.
	Reads *prometheus.CounterVec
	// Offline is the number of partitions that answer KAFKA_STORAGE_ERROR or
	// were taken offline as corrupt. By dir.
	Offline *prometheus.GaugeVec
	// LowSpaceRefused counts appends that the disk guard refused. By dir.
	LowSpaceRefused *prometheus.CounterVec
	// Retention and Cleaner are what the keeper and compaction report.
	Retention Retention
	Cleaner   Cleaner
}

// NewStorage makes the metrics and registers them; reg may be nil.
func NewStorage(reg prometheus.Registerer) *Storage {
	f := promauto.With(reg)
	return &Storage{
		GroupRecords: histogram(f, nameGroupRecords, "Records that one journal fdatasync made durable.",
			prometheus.ExponentialBuckets(1, 2, 17), "dir"),
		GroupBytes: histogram(f, nameGroupBytes, "Bytes of record batches that one journal fdatasync made durable.",
			prometheus.ExponentialBuckets(256, 4, 11), "dir"),
		SyncSeconds: histogram(f, nameGroupSync, "Duration of one journal fdatasync.",
			prometheus.ExponentialBuckets(25e-6, 2, 18), "dir"),
		WaitSeconds: histogram(f, nameCommitWait, "From queueing a partition's group until its durability profile's condition held.",
			prometheus.ExponentialBuckets(50e-6, 2, 19), "profile"),
		Online:          gauge(f, nameDirOnline, "1 while the log directory takes writes.", "dir"),
		JournalErrors:   counter(f, nameJournalErrors, "Failed writes or syncs of the journal.", "dir"),
		SegmentErrors:   counter(f, nameSegmentErrors, "Failed reads, writes or syncs of segments.", "dir"),
		Sweeps:          counter(f, nameSweeps, "Checkpoint sweeps that freed journal space.", "dir"),
		Rolls:           counter(f, nameRolls, "New segments.", "dir"),
		TruncatedBytes:  counter(f, nameTruncations, "Bytes that recovery cut from the ends of segments.", "dir"),
		RecoveryFrames:  counter(f, nameRecoveryFrames, "Journal frames read by recovery.", "dir"),
		RecoveryBytes:   counter(f, nameRecoveryBytes, "Journal bytes read by recovery.", "dir"),
		RecoverySeconds: gauge(f, nameRecoverySecs, "Duration of the last recovery.", "dir"),
		Reads:           counter(f, nameCacheReads, "Log reads by source: cache or disk.", "source"),
		Offline:         gauge(f, nameOffline, "Partitions that are offline after a storage error or corruption.", "dir"),
		LowSpaceRefused: counter(f, nameLowSpaceRefused, "Appends that were refused because the disk has too little free space.", "dir"),
		Retention:       newRetention(f),
		Cleaner:         newCleaner(f),
	}
}
