// Package record implements the Kafka record batch, format version 2 (KIP-98).
//
// The package owns the view of a batch in a byte slice (Batch, Next), the rules for batches that
// clients send (Rules.Accept), the codecs with bounded inflation, and a Builder. batch.go describes
// the format.
//
// Accept rejects every batch that a later reader of the log could not read: it has walked every
// length, count, delta, checksum and compressed stream of an accepted batch to its end. Memory is
// bounded: inflating a batch never takes more than a window, and never exceeds the given limit,
// whatever the bytes claim.
//
// The broker's produce path calls Accept; storage, replica and the coordinators use the view, the
// search by timestamp and the iteration; chronikctl and tests use the Builder. The package must not
// know files, connections, the wire types of requests, or protocol error codes: a rejected batch is
// an *Error whose Kind the broker maps.
package record
