// Package replica is partitions as replicated logs: who leads, who is in sync,
// how far records count, and when an append is acknowledged.
//
// It owns Partition, which sits on a storage.Log and moves the high watermark,
// and Manager, which follows the metadata: it gives partitions their role, and
// has logs made and deleted, each directory at its own pace (docs/topics.md). A handler calls Append and Read; it knows
// nothing of how a log becomes durable, and this package nothing of the protocol.
//
// # When an append is acknowledged
//
//	Append → storage numbers it → it waits in order of offsets:
//	  acks=1    until ackEnd, the end up to which the leader's log meets its durability profile, covers it
//	  acks=all  until the high watermark does: the smallest ackEnd over the in-sync replicas
//	  acks=0    not at all
//
// Whatever moves an end completes what it covers: the log (Advanced), a follower's
// acknowledgement (Acknowledged), a change of the ISR. Completion runs on that
// goroutine; there is none per append.
//
// Invariants: no append completes without error before its condition holds (I2);
// the high watermark of a leader never goes back, and nobody reads above it
// (I4); a leader of an older epoch than the metadata's takes nothing (I9).
package replica

import "errors"

// Errors that callers tell apart. The broker maps each to a protocol error.
var (
	ErrUnknownPartition = errors.New("this broker has no such partition")
	ErrOffline          = errors.New("partition is offline")
	ErrNotLeader        = errors.New("this broker does not lead the partition")
	// ErrDeleted comes with ErrNotLeader: the partition's topic was deleted, and
	// nobody leads it any more.
	ErrDeleted           = errors.New("the topic was deleted")
	ErrFencedEpoch       = errors.New("the leader epoch in the request is older than the broker's")
	ErrUnknownEpoch      = errors.New("the leader epoch in the request is newer than the broker's")
	ErrNotEnoughReplicas = errors.New("fewer in-sync replicas than min.insync.replicas")
	// ErrNotEnoughReplicasAfterAppend: the records are stored, but the ISR shrank
	// below min.insync.replicas before they were acknowledged.
	ErrNotEnoughReplicasAfterAppend = errors.New("stored, but with fewer in-sync replicas than min.insync.replicas")
	ErrTimedOut                     = errors.New("not acknowledged in time; the records may still be stored")
	ErrOffsetNotAvailable           = errors.New("the leader does not know its high watermark yet")
)
