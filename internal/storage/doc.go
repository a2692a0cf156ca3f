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
//	commit   one goroutine   the caller that finds nobody committing takes what makes one chunk from the queue:
//	         at a time       sequence check, offsets, copy into pooled memory (the tail), Sink.Numbered, hand over
//	journal  writer or       internal/storage/journal: one write, and one datasync, for all logs of the directory,
//	         poller          whatever their profiles
//	notify   notifier or     writtenEnd moves after the write (profiles that acknowledge what is written), durableEnd
//	         poller          after the datasync; Observer.Advanced
//	flush    flusher         durable chunks go to the segment in large writes; from here on they are a cache
//	sweep    maintenance     segments are synced, the checkpoint moves, journal files are freed
//
// Two invariants. (1) durableEnd covers a byte only after a datasync of the
// journal that began after the byte was written, or a checkpoint that lists the synced
// segment with it. (2) No byte reaches a segment before the journal datasync that covers
// it, unless the journal has failed: then memory is the best copy of what was acknowledged as
// written (revert.go, reopen.go).
//
// # When something fails
//
// A log whose segment fails is set aside (aside.go): its frames are copied from the journal
// to a file, and replayed from there into a new segment (repair.go), by this process or the
// next start. A directory whose journal fails reverts its logs to what was acknowledged and
// reopens (reopen.go). docs/journal.md has the table of states.
//
// # Locks, in the order in which they may be taken
//
//	Log.flushMu  flush, roll, sync, truncate; never taken by produce or fetch
//	Dir.ckptMu   one checkpoint or commit at a time; a repair writes one under flushMu
//	Log.qmu      the queue and who commits
//	Log.smu      producer and epoch state
//	Log.mu       tail, segments, recovery point
//
// No lock but flushMu and ckptMu is held across a call to the disk: every checkpoint takes
// smu and mu of every log.
package storage
