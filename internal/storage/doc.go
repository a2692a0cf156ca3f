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
//	                                                copy into pooled memory (the tail), Sink.OffsetsAssigned, journal.Submit
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
// written (repair_journal.go).
//
// # Files
//
// The first word of a file's name is the pass that it belongs to.
//
//	manager dir log     what there is: the log directories, one directory, one log; who places and opens them
//	life                the state of a log and of a directory, as package loglife has them
//	commit tail memory  from the queue to the journal: numbering, the newest part of a log in memory, its bound
//	flush               from memory to segments: writes, rolls, the sweep that frees the journal; tasks runs them
//	read                by offset and by time
//	checkpoint          how everything but batches is committed
//	create delete       the birth and the end of a log
//	truncate            a log goes back to an offset, and its producers with it
//	retention           what goes at the start of a log, and the keeper, which looks for it
//	compact             one pass over the keys of a log, and the swap of the segments that it wrote
//	repair              a segment failed, frames are set aside, the journal failed
//	recover identity    a start: whose directory it is, what the journal and the segments hold
//	guard stats         free space, metrics
//	inspect             what tools use while no broker runs
//	broken              rules that a test build can take away
//
// # When something fails
//
// A log whose segment fails is set aside (repair_aside.go): its frames are copied from the
// journal to a file, and replayed from there into a new segment (repair_segment.go), by this
// process or the next start. A directory whose journal fails reverts its logs to what was
// acknowledged and reopens (repair_journal.go). Package loglife has the table of states.
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
