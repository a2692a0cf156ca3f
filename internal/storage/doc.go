// Package storage is logs on disk: the one place that knows journal and
// segments together.
//
// It owns log directories (Dir), the logs in them (Log) and the Manager that
// places logs in directories. A Log takes batches that were validated, checks
// the producer's sequence, numbers them, makes them durable as its durability
// profile says, and gives them back by offset or time. It reports how far it is
// written and durable; it knows neither acks nor ISR nor the protocol. The
// replica package calls it.
//
// # The way of a batch
//
//	Append   any goroutine   the queue of the log: mutex and slice append
//	commit   one goroutine   whoever finds nobody committing takes the whole queue: sequence check, offsets, copy
//	         at a time       into pooled chunks (the tail), Sink.Numbered, hand over
//	journal                  journalled profiles: internal/storage/journal, one datasync for all logs of the directory
//	  or flusher             write-through profiles: a flusher writes the chunks to the segment
//	tell     notifier or     durableEnd or writtenEnd moves, Observer.Advanced
//	         flusher
//	flush    flusher         durable chunks go to the segment in large writes; from here on they are a cache
//	sweep    maintenance     segments are synced, the checkpoint moves, journal files are freed
//
// Two invariants. (1) durableEnd covers a byte only after a datasync of the
// journal or the segment that began after the byte was written. (2) No byte
// reaches a segment of a journalled log before the journal datasync that covers it.
//
// # Locks, in the order in which they may be taken
//
//	Log.flushMu  flush, roll, sync, truncate; never taken by produce or fetch
//	Dir.ckptMu   one checkpoint at a time; a repair writes one under flushMu
//	Log.qmu      the queue and who commits
//	Log.smu      producer and epoch state
//	Log.mu       tail, segments, recovery point
//
// No lock but flushMu and ckptMu is held across a call to the disk: every checkpoint takes
// smu and mu of every log.
package storage
