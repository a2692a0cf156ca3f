// Package record is the Kafka record batch, format version 2 (KIP-98).
//
// It owns the view of a batch in a byte slice (Batch, Next), the rules for what
// a client may send (Rules.Accept), the codecs with bounded inflation, and a
// Builder. The format is drawn in batch.go.
//
// It promises that Accept lets nothing through that a later reader of the log
// would choke on: every length, count, delta, checksum and compressed stream of
// an accepted batch has been walked to its end. It promises bounded memory:
// inflating a batch never takes more than a window, and never goes past the
// limit it was given, whatever the bytes claim.
//
// The broker's produce path calls Accept; storage, replica and the coordinators
// use the view, the search by timestamp and the iteration; chronikctl and tests
// use the Builder. The package must not know files, connections, the wire types
// of requests, nor protocol error codes: a refused batch is an *Error whose Kind
// the broker maps.
package record
