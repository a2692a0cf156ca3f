package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reasons of reads counted by Storage.Reads.
const (
	ReadFromCache = "cache" // answered from the tail cache
	ReadFromDisk  = "disk"  // answered by pread from a segment
	ReadLent      = "lent"  // sent by sendfile from the page cache
)

// Storage holds the metrics of logs and journals. The label dir is the path of a log directory as
// configured; the label profile is the name of a durability profile. Both have few values.
type Storage struct {
	// GroupRecords, GroupBytes and SyncSeconds are observed once per journal group: the entries
	// that one fdatasync made durable. By dir.
	GroupRecords, GroupBytes, SyncSeconds *prometheus.HistogramVec
	// WaitSeconds is observed once per appended group of a partition: the time from queueing it
	// until its profile's condition is met. By profile.
	WaitSeconds *prometheus.HistogramVec
	// JournalErrors and SegmentErrors count failed disk operations. By dir.
	JournalErrors, SegmentErrors *prometheus.CounterVec
	// Sweeps counts checkpoint sweeps, Rolls new segments. By dir.
	Sweeps, Rolls *prometheus.CounterVec
	// TruncatedBytes counts bytes that recovery removed from the ends of segments. By dir.
	TruncatedBytes *prometheus.CounterVec
	// RecoveryFrames and RecoveryBytes grow while recovery reads the journal. By dir.
	RecoveryFrames, RecoveryBytes *prometheus.CounterVec
	// RecoverySeconds is the duration of the last recovery. By dir.
	RecoverySeconds *prometheus.GaugeVec
	// Reads counts log reads by source: ReadFromCache, ReadFromDisk, ReadLent.
	Reads *prometheus.CounterVec
	// Offline is the number of partitions that answer KAFKA_STORAGE_ERROR or were taken offline
	// because of corruption. By dir.
	Offline *prometheus.GaugeVec
	// ScrubBytes counts the bytes of sealed segments that were read to find damage. ScrubOldest is
	// the time since when each sealed segment was read or written, in seconds. By dir.
	ScrubBytes  *prometheus.CounterVec
	ScrubOldest *prometheus.GaugeVec
	// LowSpaceRefused counts appends that the disk guard rejected. By dir.
	LowSpaceRefused *prometheus.CounterVec
	// Retention and Cleaner are the metrics of the retention loop and of compaction.
	Retention Retention
	Cleaner   Cleaner
}

// NewStorage creates the metrics and registers them; reg may be nil.
func NewStorage(reg prometheus.Registerer) *Storage {
	f := promauto.With(reg)
	return &Storage{
		GroupRecords: histogram(f, nameGroupRecords, "Records that one journal fdatasync made durable.",
			prometheus.ExponentialBuckets(1, 2, 17), "dir"),
		GroupBytes: histogram(f, nameGroupBytes, "Bytes of record batches that one journal fdatasync made durable.",
			prometheus.ExponentialBuckets(256, 4, 11), "dir"),
		SyncSeconds: histogram(f, nameGroupSync, "Duration of one journal fdatasync.",
			prometheus.ExponentialBuckets(25e-6, 2, 18), "dir"),
		WaitSeconds: histogram(f, nameCommitWait, "Time from queueing records of a partition until they meet the condition of their durability profile.",
			prometheus.ExponentialBuckets(50e-6, 2, 19), "profile"),
		JournalErrors:   counter(f, nameJournalErrors, "Failed writes or syncs of the journal.", "dir"),
		SegmentErrors:   counter(f, nameSegmentErrors, "Failed reads, writes or syncs of segments.", "dir"),
		Sweeps:          counter(f, nameSweeps, "Checkpoint sweeps that freed journal space.", "dir"),
		Rolls:           counter(f, nameRolls, "Segments that were rolled.", "dir"),
		TruncatedBytes:  counter(f, nameTruncations, "Bytes that recovery truncated from the ends of segments.", "dir"),
		RecoveryFrames:  counter(f, nameRecoveryFrames, "Journal frames read by recovery.", "dir"),
		RecoveryBytes:   counter(f, nameRecoveryBytes, "Journal bytes read by recovery.", "dir"),
		RecoverySeconds: gauge(f, nameRecoverySecs, "Duration of the last recovery.", "dir"),
		Reads:           counter(f, nameCacheReads, "Log reads by source: cache, disk or lent (sent from the page cache).", "source"),
		Offline:         gauge(f, nameOffline, "Partitions that are offline after a storage error or corruption.", "dir"),
		ScrubBytes:      counter(f, nameScrubBytes, "Bytes of sealed segments that the broker read to find damage.", "dir"),
		ScrubOldest: gauge(f, nameScrubOldest, "Time since which the broker has read all sealed segments, in seconds; those that were sealed later count as read.",
			"dir"),
		LowSpaceRefused: counter(f, nameLowSpaceRefused, "Appends rejected because the disk has too little free space.", "dir"),
		Retention:       newRetention(f),
		Cleaner:         newCleaner(f),
	}
}
