// Package journal is the write-ahead journal of a log directory: it makes the
// waiting groups of all partitions durable with one fdatasync.
//
// # What it owns
//
// The files below the journal's directory, the order of frames in them (LSNs),
// and three goroutines: the writer, the notifier, and the preparer of files. It
// does not know what a log is: it carries entries of streams, notifies each
// entry's Owner when the entry is written, durable or lost, and returns the entries
// at a start. It does not decide which files are still needed; the owner of the
// checkpoint does (Release).
//
// # The way of an entry
//
//	Submit      any goroutine     the entry joins its stream's queue, and the journal the caller's groupcommit.Batch
//	WriteGroup  the batch's       writes the group in place of the writer if that one sleeps and the disk is quick;
//	            goroutine         otherwise wakes it
//	window      writer            the group closes when the first of: an entry does not want to
//	                              wait, the earliest deadline, the smallest limit, nobody left to wait for,
//	                              arrivals have dried up
//	write       who writes        round-robin over streams, LSNs given, ~4 MiB a write, past the page cache
//	                              unless every entry of the write is acknowledged as written
//	written     notifier, or      Owner.Written for entries whose profile acknowledges what is written
//	            who writes
//	sync        who writes        one datasync for everything written, if an entry of the group waits for it, the
//	                              shortest interval of a profile has passed, somebody asked (Sync), or much is unsynced
//	durable     notifier, or      Owner.Durable in LSN order, then DurableThrough for the entries that were
//	            who writes        reported as written; with the notifier, the writer is already at the next group
//
// Four invariants. (1) Owner.Durable reports success only after a datasync that
// began after the entry's last byte was written, and after every entry with a
// smaller LSN is durable too. (2) Owner.Written is called only after the write that
// contains the entry returned, and an entry of a profile with an interval is
// durable, or the journal has failed, one interval and one datasync later. (3) After
// the first failed write or datasync nothing is written to that file again, the
// owner of every entry that was not reported yet receives the error, and the
// journal stands still until Fresh and Resume. (4) No write touches a 4 KiB block
// that holds acknowledged frames: a disk that loses power during a write may ruin
// all of it.
//
// A design with one goroutine and one file per partition was measured: with
// 1,000 hot partitions it is 20 times slower, because each pays its own
// fdatasync.
//
// # Life
//
//	Open → Scan, Replay (at a start) → Fresh → [checkpoint names the fresh file] → Resume → Submit…
//	                                     ▲                                                    │ failure
//	                                     └────────────────────────────────────────────────────┘
//
// docs/journal.md holds the formats and the rules of recovery.
package journal
