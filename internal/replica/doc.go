// Package replica implements partitions as replicated logs: which broker leads, which replicas are
// in sync, up to which offset records count, and when an append is acknowledged. It owns Partition,
// which moves the high watermark of a storage.Log, and Manager, which follows the metadata. The
// Manager gives partitions their role and creates and deletes logs, independently for each log
// directory (docs/topics.md). Request handlers call Append and Read and know nothing of how a log
// becomes durable. This package knows nothing of the protocol.
//
// # When an append is acknowledged
//
//	Append → storage assigns offsets → it waits, in offset order:
//	  acks=0    not at all
//	  acks=1    for ackEnd: the offset up to which the leader's log meets its durability profile
//	  acks=all  for the high watermark: the smallest ackEnd of the in-sync replicas
//
// During a change of the ISR, the high watermark counts the members of the old and of the new one.
// While the ELR is not empty, it stands still (progress.Leader).
//
// The goroutine that advances an end completes the appends that it covers: the log (Advanced), a
// follower's acknowledgement (Acknowledged), or a change of the ISR. There is no goroutine per
// append.
//
// Invariants: no append completes without error before its condition holds (I2); the high watermark
// of a leader never decreases, and no read returns records above it (I4); a leader whose epoch is
// older than the metadata's accepts no append (I9).
//
// # Goroutines and locks
//
//	Apply       the applier's goroutine gives roles and settings, in memory
//	dirqueue    one for each log directory with logs to create or to delete
//	recorder    one, while there is something to record in the metadata
//	upkeep      one that decides; requests to the controller and saved high watermarks have
//	            further ones, at most one for each purpose and directory
//	mover       one for each log directory to which logs move, until Close
//	retry       one, while creations are due again
//	cutTier     at most cutsAtOnce for a deletion of records, which waits for them
//	Close       one that waits for all of these but cutTier; it stays if a disk hangs
//
// Timers of queues, removals and the recorder only queue work, and do nothing after Close.
//
// All other calls come on goroutines of storage, of streams and of requests.
//
// An append belongs to the log from Append to OffsetsAssigned, then to a queue of its partition,
// guarded by Partition.mu. The goroutine that removes it from there owns it, and calls Done without
// that lock.
//
// Lock order: Manager.roles, abilities.mu, freezing.mu, Manager.mu, Partition.mu, then producersMu
// and mu of a storage.Log. upkeep.mu and copySources.mu come last. None is held across I/O. The
// purgatory and a Tail are called without Manager.mu and Partition.mu, and storage calls a
// Partition without producersMu and mu.
//
// Timers of a freeze may run late and overlap the next one. They name their freeze and have no
// effect if another one has begun.
package replica

import "errors"

// Errors that callers distinguish. The broker maps each to a protocol error.
var (
	ErrUnknownPartition = errors.New("this broker has no such partition")
	ErrOffline          = errors.New("partition is offline")
	ErrCreating         = errors.New("the log of the partition is being created")
	ErrNotLeader        = errors.New("this broker does not lead the partition")
	// ErrDeleted comes with ErrNotLeader: the partition's topic was deleted, so it has no leader.
	ErrDeleted           = errors.New("the topic was deleted")
	ErrFencedEpoch       = errors.New("the leader epoch in the request is older than the broker's")
	ErrUnknownEpoch      = errors.New("the leader epoch in the request is newer than the broker's")
	ErrNotEnoughReplicas = errors.New("fewer in-sync replicas than min.insync.replicas")
	// ErrNotEnoughReplicasAfterAppend: the records are stored, but the ISR shrank
	// below min.insync.replicas before they were acknowledged.
	ErrNotEnoughReplicasAfterAppend = errors.New("stored, but with fewer in-sync replicas than min.insync.replicas")
	ErrTimedOut                     = errors.New("not acknowledged in time; the records may still be stored")
	ErrOffsetNotAvailable           = errors.New("this replica does not know yet that the offset is committed")
)

// Errors of replication. No client receives them.
var (
	// ErrNotReplica: the metadata image does not show the follower's registration and log directory
	// among the replicas. It must try again when it does.
	ErrNotReplica = errors.New("the broker is not known as a replica")
	// ErrDiverged: committed records of this replica are not in the leader's log. Nothing may be
	// truncated without an operator.
	ErrDiverged = errors.New("the leader's log lacks records that are committed here")
	// ErrReplaced: the metadata show another process as this broker, or none.
	ErrReplaced = errors.New("this process leads and follows nothing until it has registered again")
)
