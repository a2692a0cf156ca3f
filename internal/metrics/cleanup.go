package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reasons of segments counted by Retention.Segments and Retention.Bytes.
const (
	RemovedByTime  = "time"    // older than retention.ms
	RemovedBySize  = "size"    // more than retention.bytes
	RemovedByStart = "start"   // below the log start offset, which a client moved
	RemovedByClean = "compact" // replaced by a compacted segment
)

// Retention holds the metrics of segments that the retention loop of a log directory removes.
type Retention struct {
	// Segments and Bytes count segments that left a log and can no longer be read; their files may
	// remain for file.delete.delay.ms. By dir and reason.
	Segments, Bytes *prometheus.CounterVec
	// Waiting is the size of files on disk that were removed from their logs, in bytes. By dir.
	Waiting *prometheus.GaugeVec
}

func newRetention(f promauto.Factory) Retention {
	return Retention{
		Segments: counter(f, nameRemovedSegments, "Segments that left their logs, by reason: time, size, start, compact.", "dir", "reason"),
		Bytes: counter(f, nameRemovedBytes, "Bytes of segments that left their logs, by reason: time, size, start, compact.",
			"dir", "reason"),
		Waiting: gauge(f, nameDeletedBytes, "Bytes of removed segments whose files wait for file.delete.delay.ms to pass.", "dir"),
	}
}

// Cleaner holds the metrics of compaction. A pass reads the dirty segments of one log to build its
// map, and rewrites the segments below the end of the map.
type Cleaner struct {
	// Passes counts passes whose segments are in place, Failures those that failed; a failed log is
	// retried with back-off. By dir.
	Passes, Failures *prometheus.CounterVec
	// Read and Written count bytes of batches; a segment that is read twice counts twice. By dir.
	Read, Written *prometheus.CounterVec
	// Records counts removed records. By dir.
	Records *prometheus.CounterVec
	// LastRun is when the last pass ended, in seconds since 1970, LastSeconds how long it took. By
	// dir.
	LastRun, LastSeconds *prometheus.GaugeVec
	// MaxDirty is the largest dirty ratio of the compacted logs, 0 to 1. By dir.
	MaxDirty *prometheus.GaugeVec
	// Stopped is the number of logs whose last pass failed: they grow. By dir.
	Stopped *prometheus.GaugeVec
	// MapBytes is the memory of the map of the current pass. By dir.
	MapBytes *prometheus.GaugeVec
}

func newCleaner(f promauto.Factory) Cleaner {
	return Cleaner{
		Passes:      counter(f, nameCleanerPasses, "Compaction passes that succeeded, one log each.", "dir"),
		Failures:    counter(f, nameCleanerFailures, "Compaction passes that failed.", "dir"),
		Read:        counter(f, nameCleanerRead, "Bytes that compaction read.", "dir"),
		Written:     counter(f, nameCleanerWritten, "Bytes that compaction wrote.", "dir"),
		Records:     counter(f, nameCleanerRecords, "Records that compaction removed.", "dir"),
		LastRun:     gauge(f, nameCleanerLastRun, "Time at which the last compaction pass ended, in seconds since 1970.", "dir"),
		LastSeconds: gauge(f, nameCleanerLastSecs, "Duration of the last compaction pass.", "dir"),
		MaxDirty:    gauge(f, nameCleanerMaxDirty, "Largest dirty ratio, 0 to 1, of the compacted logs.", "dir"),
		Stopped:     gauge(f, nameCleanerStopped, "Compacted partitions whose last pass failed.", "dir"),
		MapBytes:    gauge(f, nameCleanerMap, "Bytes of the key map of the current compaction pass.", "dir"),
	}
}
