// Package segment is one file of record batches with its two sparse indexes.
//
// It owns the files <base offset>.log, .index and .timeindex in the formats of
// Kafka, byte for byte, and the bounded sets of open descriptors and of indexes in
// memory (Files). A file <base offset>.producers, which the log writes and reads, goes
// with them. It
// appends, syncs, finds a batch by offset or by timestamp, reads, and finds the
// valid prefix of a file after a crash.
//
// It promises that a Segment whose write or datasync failed is never written
// or synced again (Err), and that bytes read from the disk are handed out only
// after their checksum was compared. Indexes are caches: they are not synced,
// and what a lookup finds in them is checked against the batch it points to.
//
// It knows nothing of journals, replicas or of what a log retains. A Segment has
// one writer at a time; readers may run beside it.
package segment

import "errors"

// ErrCorrupt marks stored bytes that are no valid record batch.
var ErrCorrupt = errors.New("corrupt record batch")
