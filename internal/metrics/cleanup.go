package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reasons of segments counted by Retention.Segments and Retention.Bytes.
const (
	RemovedByTime  = "time"    // older than retention.ms
	RemovedBySize  = "size"    // more than retention.bytes
	RemovedByStart = "start"   // below the log start, which somebody moved
	RemovedByClean = "compact" // replaced by what compaction left of it
)

// RemovalReasons are all values of the label reason.
func RemovalReasons() []string {
	return []string{RemovedByTime, RemovedBySize, RemovedByStart, RemovedByClean}
}

// Retention is what the keeper of a log directory reports of segments that go.
type Retention struct {
	// Segments and Bytes count segments that left a log, when its readers lose
	// them: their files may stay for file.delete.delay.ms. By dir and reason.
	Segments, Bytes *prometheus.CounterVec
	// Waiting is the bytes of files that were removed from their logs and still
	// are on the disk. By dir.
	Waiting *prometheus.GaugeVec
}

func newRetention(f promauto.Factory) Retention {
	return Retention{
		Segments: counter(f, nameRemovedSegments, "Segments that left their logs, by reason: time, size, start, compact.", "dir", "reason"),
		Bytes:    counter(f, nameRemovedBytes, "Bytes of segments that left their logs, by reason: time, size, start, compact.", "dir", "reason"),
		Waiting:  gauge(f, nameDeletedBytes, "Bytes of removed segments whose files wait for file.delete.delay.ms to pass.", "dir"),
	}
}

// Cleaner is what compaction reports. A pass reads the dirty segments of one log
// for its map and rewrites what lies below the map's end.
type Cleaner struct {
	// Passes counts passes that ended with what they cleaned in place, Failures
	// those that an error ended; the log is tried again with back-off. By dir.
	Passes, Failures *prometheus.CounterVec
	// Read and Written count bytes of batches, both times that a segment is read
	// included. By dir.
	Read, Written *prometheus.CounterVec
	// Records counts records that passes took away. By dir.
	Records *prometheus.CounterVec
	// LastRun is when the last pass ended, in seconds since 1970, LastSeconds how
	// long it took. By dir.
	LastRun, LastSeconds *prometheus.GaugeVec
	// MaxDirty is the largest dirty ratio of the compacted logs, 0 to 1. By dir.
	MaxDirty *prometheus.GaugeVec
	// Stopped is the number of logs whose last pass failed: they grow. By dir.
	Stopped *prometheus.GaugeVec
	// MapBytes is the memory that the map of the pass under way takes. By dir.
	MapBytes *prometheus.GaugeVec
}

func newCleaner(f promauto.Factory) Cleaner {
	return Cleaner{
		Passes:      counter(f, nameCleanerPasses, "Compaction passes that ended well, one log each.", "dir"),
		Failures:    counter(f, nameCleanerFailures, "Compaction passes that an error ended.", "dir"),
		Read:        counter(f, nameCleanerRead, "Bytes that compaction read.", "dir"),
		Written:     counter(f, nameCleanerWritten, "Bytes that compaction wrote.", "dir"),
		Records:     counter(f, nameCleanerRecords, "Records that compaction took away.", "dir"),
		LastRun:     gauge(f, nameCleanerLastRun, "When the last compaction pass ended, in seconds since 1970.", "dir"),
		LastSeconds: gauge(f, nameCleanerLastSecs, "Duration of the last compaction pass.", "dir"),
		MaxDirty:    gauge(f, nameCleanerMaxDirty, "Largest dirty ratio, 0 to 1, of the compacted logs.", "dir"),
		Stopped:     gauge(f, nameCleanerStopped, "Compacted partitions whose last pass failed.", "dir"),
		MapBytes:    gauge(f, nameCleanerMap, "Bytes of the key map of the compaction pass under way.", "dir"),
	}
}
