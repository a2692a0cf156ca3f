// Package exchange carries what transaction coordinators and the leaders of partitions have to
// tell each other, on this broker and between brokers.
//
//	Ask           gate ─────────▶ coordinator      may these batches join the transaction?
//	Send          coordinator ──▶ partitions       markers, and flushes of weak partitions
//	WriteMarkers  tool ─────────▶ partitions here  markers that no coordinator has sent
//	Handle        what Exchanges of other brokers ask of this one
//
// On this broker, requests are handed on by the goroutine that makes them. The markers of a
// transaction share the coordinator's batch, and so the group commits of their logs' journals. To
// every other broker there are three queues: questions, orders, and orders to partitions that were
// slow last time. A queue has one call on the way, that of questions a few, and what comes
// meanwhile is the next call. A queue with work has a goroutine; a transaction has none.
//
// The package promises:
//
//   - Every request gets exactly one answer. A broker that does not answer, a partition without a
//     leader and a full queue are errors, which the caller repeats.
//   - Of one producer, at most one marker for a partition is on the way. Another one waits until
//     the first is answered, or can't be appended any longer: otherwise a late copy could end the
//     next transaction.
//   - A call without an answer is dead. The sender says so in its next calls, and the receiver does
//     not begin a dead call. If it has begun before, its markers are ahead of the next ones in the
//     same queues.
//   - A marker that counts is durable on every in-sync replica.
//   - The queue to a broker holds at most maxWaiting orders.
//
// The daemon connects Handle and Options.Call to the links between brokers. The package knows
// neither connections nor clients' requests, and coordinators only by their events.
package exchange
