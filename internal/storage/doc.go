// Package storage stores logs on disk. Of a running broker, it is the only package that knows both
// the journal and the segments.
//
// It owns log directories (Dir), the logs in them (Log), and the Manager that places logs in
// directories. A Log accepts validated batches, checks the sequence of their producer, assigns
// offsets, makes the batches durable as the log's durability profile demands, and returns them by
// offset or time. It reports up to which offset it is written and durable. It knows neither acks
// nor ISR nor the protocol. Package replica calls it.
//
// # The path of a batch
//
// docs/architecture.md lists the functions from a request to the fdatasync. In this package:
//
//	Append     commit.go  any goroutine     queues the append and adds the log to the caller's
//	                                        groupcommit.Batch; without a batch it commits at once
//	Commit     commit.go  one goroutine at  takes one chunk of appends from the queue, checks
//	                      a time            epochs and sequences, assigns offsets, copies the
//	                                        batches to pooled memory (the tail), and calls
//	                                        Sink.OffsetsAssigned, Observer.Appended (streams to
//	                                        followers send) and journal.Submit
//	journal               writer, or who    one write and one fdatasync for all logs of the
//	                      runs the batch    directory, whatever their profiles
//	Written,   tail.go    notifier, or who  the written end advances after the write, for profiles
//	Durable    commit.go  wrote             that acknowledge written records, the durable end after
//	                                        the fdatasync; both call Observer.Advanced
//	flush      flush.go   flusher           writes durable chunks to the segment in large writes;
//	                                        from then on the chunks are a cache
//	sweep      flush_     maintenance       syncs segments, writes the checkpoint, releases journal
//	           sweep.go                     files
//
// Pollers, connections of followers and the desk of dead letters run their batches; others hand
// them to the writer.
//
// Two invariants:
//
//  1. The durable end covers a byte only after an fdatasync of the journal that began after the
//     byte was written, or after a checkpoint that lists the synced segment with the byte.
//  2. No byte reaches a segment before the fdatasync of the journal that covers it. The exception
//     is a failed journal: then memory is the best copy of records that were acknowledged as
//     written (repair_journal.go).
//
// # Files
//
// The first word of a file name is the area that the file belongs to.
//
//	manager dir log     log directories, one directory, one log; placing and opening them
//	life                the state of a log and of a directory, as defined by package loglife
//	commit tail memory  from the queue to the journal: assigning offsets, the newest part of a log
//	                    in memory, the memory limit
//	epoch led accept    which appends a log accepts: its leader epoch, role and state; the highest
//	                    epoch in which it led
//	debt                what a log owes the journal that it shares, and who waits for that
//	flush tasks         from memory to segments: writes, rolls, the sweep that releases the
//	                    journal; tasks runs them
//	read                reads and lookups by offset and by time
//	aborted             the indexes of aborted transactions, for readers of committed records
//	transactions        those that are open
//	checkpoint          commits everything but batches
//	create delete       creates and deletes logs
//	move                moves a log to another directory
//	truncate            truncates a log, with the state of its producers
//	retention           removes data at the start of a log, on request or by policy
//	hold                keeps what a log has for a reader: compaction and removals wait
//	compact             one pass over the keys of a log, and the swap of the segments it wrote
//	scarce              what wakes flushes, sweeps and repairs, and when a directory is blocked
//	repair              a failed segment, quarantined frames, a failed journal
//	recover identity    startup: which directory this is, what journal and segments contain
//	names               the names of files and directories next to the partition directories
//	replaced            a damaged log that is made again, and copied from its leader
//	scrub               reads sealed segments to find damage
//	absent              files that were removed or cut while they are in use
//	guard stats         free space, metrics
//	errors              what callers match
//	inspect             access for tools while no broker runs
//	broken              rules that a test build can disable
//
// # Goroutines of a directory
//
//	flush             several; each writes the batches of one log to its segments at a time
//	maintain          sweeps, repairs of segments, and a failed journal
//	relieveMemory     the logs to flush when chunks need memory
//	renewCheckpoints  checkpoints that are due
//	commitRequested   changes of the checkpoint that a log has requested, several at once
//	runRetention      deletes segments, and the files of deleted ones
//	compactLogs       one compaction at a time
//	scrub             reads sealed segments
//	checkFiles        files of segments that others have removed or cut
//	guardSpace        measures the free space, if there is a limit
//
// They run from start to Close. The journal has its own (package journal).
//
// # Failures
//
// A log whose segment fails is quarantined (repair_quarantine.go): its frames are copied from the
// journal to a file, and replayed from there: by this process into a new segment
// (repair_segment.go), by the next start into the last one, cut to what was synced. A directory
// whose journal fails reverts its logs to their acknowledged records and reopens the journal
// (repair_journal.go). Package loglife has the table of states.
//
// # Lock order
//
// A goroutine acquires locks in this order. Those in the last group are never held together.
//
//	Manager.mu        the broker's logs, and where they are placed
//	Dir.compactingMu  one compaction pass at a time
//	Dir.scarce.mu     one change between running and blocked at a time
//	right to commit   of a log: acquireCommit, releaseCommit; no mutex
//	Log.flushMu       flush, roll, sync, swap, truncation, repair
//	Dir.ckptMu        one checkpoint or commit of a checkpoint at a time
//	Log.queueMu       the queue of appends, and who has the right to commit
//	Log.producersMu   producers and epochs
//	Log.mu            tail, segments, recovery point, state
//
//	Dir.mu            the directory's logs and tombstones, and repeated failures
//	memory.mu         the logs that wait for memory or have cached chunks
//	tasks.tasksMu     the queue of the flushers
//	retentionLoop.mu  removed segments whose files still exist
//	turnover.mu       the rate of segment writes
//	debts.mu          the logs that wait until they owe fewer segments
//	standstill.mu     the last state of the journal that was read
//
// The locks of the packages journal, segment and few come last.
//
// A goroutine must not wait for a log's right to commit while it holds the log's flushMu. Commit
// does not wait for it, so a goroutine that holds flushMu may call Commit: when memory is released,
// resume does.
//
// Only Delete and a quarantine hold flushMu of several logs. Delete sets the state of a log while
// it has the right to commit, releases the right, and then waits for flushMu. A quarantine only
// tries to get the right to commit, keeps it, and skips deleted logs, so the two never wait for
// each other. Manager.Delete passes a log to one Dir.Delete only, so two of them share no log.
//
// Of these, only compactingMu, scarce.mu, the right to commit, flushMu and ckptMu are held across
// disk I/O; those that are mutexes are a vfs.Mutex. Produce and fetch requests wait for none of
// them. They do acquire producersMu and mu, as does every checkpoint for every log, so those are
// never held across I/O.
//
// A function whose name ends in Locked needs the mutexes that its comment names.
package storage
