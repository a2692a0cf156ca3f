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
// docs/architecture.md names the functions from a request to the fdatasync. In this package:
//
//	Append     commit.go   any goroutine            the append joins the log's queue, and the log the caller's
//	                                                groupcommit.Batch; without one it is committed at once
//	Commit     commit.go   one goroutine at a time  takes from the queue what makes one chunk: sequence check, offsets,
//	                                                copy into pooled memory (the tail), Sink.Numbered, journal.Submit
//	journal                writer or poller         one write, and one datasync, for all logs of the directory,
//	                                                whatever their profiles
//	Written,   tail.go,    notifier or poller       writtenEnd moves after the write (profiles that acknowledge what is
//	Durable    commit.go                            written), durableEnd after the datasync; Observer.Advanced
//	flush      flush.go    flusher                  durable chunks go to the segment in large writes; from here on they
//	                                                are a cache
//	sweep      sweep.go    maintenance              segments are synced, the checkpoint moves, journal files are freed
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
