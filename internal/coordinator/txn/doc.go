// Package txn is the transaction coordinator as a pure state machine. The packages below it connect
// the coordinator with the leaders of partitions: gate holds a batch until the coordinator permits
// it, and exchange carries questions and markers. coordinator/service runs the Shards.
//
// It owns Shard, the coordinator.Machine of one partition of __transaction_state. A Shard does no
// I/O, starts no goroutine and reads no clock: the same events at the same times make the same
// records, answers and requests. The records are Kafka's, so that Kafka's tools can read the topic.
//
//	           InitProducerID                    add
//	(unknown) ───────────────▶ Empty ────────────────────────▶ Ongoing ◀─┐ add
//	                             ▲                             │  │  └───┘
//	              InitProducerID │     EndTxn(commit), flushed │  │ EndTxn(abort), timeout, loss,
//	                             │                             ▼  ▼ InitProducerID: fence
//	                             │                 PrepareCommit  PrepareAbort
//	                             │                             │  │ every marker is durable
//	                             │                             ▼  ▼
//	    tombstone ◀── idle ──────┴──────────── CompleteCommit  CompleteAbort ── add ──▶ Ongoing
//
// The record of a Prepare state decides the transaction. Everything before it is open, and nothing
// after it can change the decision: a coordinator that loads such a record sends the markers again.
//
// Clients speak one of two protocols. With version 1, partitions are added by request, and the
// producer epoch stays the same over transactions. With version 2 (KIP-890), the append of the
// first record adds the partition, and every EndTxn raises the epoch, so that nothing of an earlier
// transaction can reach a later one.
//
// These rules keep a decided transaction whole:
//
//   - An answer, and a request that leaves the Shard, waits until all records so far are committed.
//     The runtime does this (Effects.Reply, Effects.Send).
//   - A Complete state is reached when every partition's marker is durable. Only an answer to a
//     marker that this Shard has sent for this transaction counts.
//   - A partition leaves a transaction without a marker only if the metadata that this broker has
//     applied has no such partition. Every other failure is retried forever.
//   - Success of version 1 that needs no record writes the unchanged record again (barrier): the
//     log refuses it if another coordinator leads, which may know better. The epochs of version 2,
//     and the coordinator epoch in answers to partitions, do the same without a record.
//   - All volatile state belongs to one transaction: every transition drops it.
//   - A marker is not sent to a partition while an earlier one is not answered.
//   - A transaction that is aborted by anyone but its producer raises the epoch.
//   - A commit is an abort if a partition may have lost records in a leader epoch above the one
//     that the metadata showed when it was added; 0 after a load. Nothing raises that one.
//   - A producer with its present epoch is not fenced.
//   - The largest epoch that a producer gets is maxEpoch; the next one is only in markers.
//
// The package does not know requests, connections, or how markers reach their partitions. The
// broker maps PRODUCER_FENCED and TRANSACTION_ABORTABLE to codes that older clients know.
package txn
