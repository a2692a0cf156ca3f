// Package journal is the write-ahead journal of a log directory. It makes the queued entries of all
// partitions durable with one fdatasync.
//
// # Ownership
//
// The package owns the files in the journal's directory, the order of frames in them (LSNs), and
// three goroutines: the writer, the notifier, and the preparer of files. It does not know what a
// log is: it carries entries of streams, notifies each entry's Owner when the entry is written,
// durable or lost, and returns the entries during recovery. The owner of the checkpoint decides
// which files are still needed and calls Release.
//
// # The path of an entry
//
//	Submit      any goroutine   append the entry to its stream's queue, and add the journal to
//	                            the caller's groupcommit.Batch
//	WriteGroup  runs the batch  if the writer is parked and the disk is fast, write the group
//	                            in the calling goroutine; otherwise wake the writer
//	window      writer          close the group: an entry does not wait, the earliest deadline
//	                            or the smallest limit is reached, no producer is left to
//	                            wait for, or arrivals have stopped
//	write       writer, caller  take entries round-robin over the streams, assign LSNs, write
//	                            up to 4 MiB at once, past the page cache unless every entry of
//	                            the write is acknowledged when written; a large entry among
//	                            small ones is written in pieces (pieces.go)
//	written     notifier, same  call Owner.Written for entries acknowledged when written
//	sync        writer, caller  call datasync once for everything written, if an entry waits
//	                            for it, the shortest interval of a profile has passed, Sync
//	                            was called, or too much is unsynced
//	durable     notifier, same  call Owner.Durable in LSN order, then DurableThrough for
//	                            entries reported as written; if the notifier does this, the
//	                            writer is already working on the next group
//
// "Caller" is the goroutine in WriteGroup; "same" is the goroutine that wrote the group.
//
// Four invariants:
//
//  1. Owner.Durable reports success only after a datasync that began after the entry's last byte
//     was written, and after every entry with a smaller LSN is durable.
//  2. Owner.Written is called only after the write that contains the entry returned. An entry whose
//     profile has an interval is durable one interval and one datasync later, or the journal has
//     failed.
//  3. After the first failed write or datasync, the journal writes nothing more to that file. The
//     owner of every entry that was not reported yet receives the error, and the journal stays
//     stopped until Fresh and Resume.
//  4. No write touches a 4 KiB block that holds acknowledged frames: a disk that loses power during
//     a write may ruin every block of that write.
//
// With one file per partition, each group would pay for one fdatasync per partition in it.
//
// # Life cycle
//
//	Open → Scan (recovery) → Fresh → [checkpoint names the fresh file] → Resume → Submit…
//	                           ▲                                                    │ failure
//	                           └────────────────────────────────────────────────────┘
//
// The comment of header draws the format of a file; docs/journal.md has its reasons and the rules
// of recovery.
package journal
