// Package tierread reads records that are only in an object store: the beginning of partitions'
// logs, as a manifest lists it.
//
// It owns the way from an offset to the bytes of whole batches, the searches for timestamps and for
// aborted transactions, and a cache of bounded memory with what it has read: chunks, footers and
// manifests. Nothing is used before its checksum was verified.
//
// A transfer serves every caller that needs its bytes. It continues when they give up, and ends
// with the bounds of the store, so that a repeated call finds what the first one began to read. A
// store that hangs holds a bounded number of transfers.
//
// The package does not know which records are tiered, or whether a manifest is still the newest: a
// Copy tells it. It knows neither partitions nor clients, and writes nothing.
package tierread
