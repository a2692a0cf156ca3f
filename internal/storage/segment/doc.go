// Package segment implements one segment of a log: a file of record batches with its two sparse
// indexes.
//
// The package owns the files <base offset>.log, .index and .timeindex in Kafka's formats, byte for
// byte, and the bounded sets of open descriptors and of indexes in memory (Files). A file <base
// offset>.producers, which the log writes and reads, is removed together with them. So is the index
// of aborted transactions, <base offset>.txnindex, of which the log says what it must be: it is
// synced with the batches, and never taken for an empty one. The package appends, syncs, finds a
// batch by offset or by timestamp, reads, and finds the valid prefix of a file after a crash.
//
// To a Segment whose write or datasync failed nothing more is written (Err). It can only be cut to
// what was synced before. Bytes read from the disk are returned only after their checksum was
// verified. The indexes by offset and by time are caches: they are not synced, and a lookup
// verifies each entry against the batch that it points to.
//
// The package knows nothing of journals, replicas or retention. A Segment has one writer at a time;
// readers may run concurrently.
package segment

import "errors"

// ErrCorrupt marks stored bytes that are not a valid record batch.
var ErrCorrupt = errors.New("corrupt record batch")
