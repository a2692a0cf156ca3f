// Package gate is the step before the append of a transactional batch: a batch that would begin a
// transaction in a partition waits until the transaction's coordinator permits it.
//
// A batch whose producer has an open transaction of the same epoch in the partition passes at once:
// the open transaction is the proof. No other state says so, and nothing is lost by a restart.
// Every other one waits in a queue, one for each partition and producer id, in the order of
// arrival:
//
//	asking   the log has a guard for the producer, and the coordinator has a Question. A temporary
//	         answer is followed by a pause and the Question again.
//	opening  the answer was yes: the oldest batch is in the log's queue with guard and coordinator
//	         epoch. The log refuses it if the answer may be outdated, and the gate asks again, or
//	         lets the sender repeat it (transaction.version 0 and 1).
//	passing  the transaction is open: the rest is passed on, in order.
//
// The queue ends when it is empty. A batch that arrives before lines up behind the others, so that
// none overtakes. Plain batches and other producers never wait.
//
// The gate has no goroutines that wait. One goroutine passes on the batches of a queue whose
// transaction was opened, and ends when the queue is empty or has to ask. A Question is repeated by
// a timer. The gate does not know what is in a batch, and decides nothing about transactions. It
// keeps no bytes of its own: the batches are those of requests, which stay charged until they are
// answered.
package gate
