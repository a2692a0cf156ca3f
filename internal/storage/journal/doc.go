// Package journal is the write-ahead journal of a log directory: it makes the
// waiting groups of all partitions durable with one fdatasync.
//
// # What it owns
//
// The files below the journal's directory, the order of frames in them (LSNs),
// and the two goroutines that write and tell. It does not know what a log is:
// it carries entries of streams, tells each entry's Owner when the entry is
// durable or lost, and gives the entries back at a start. It does not decide
// which files are still needed; whoever holds the checkpoint does (Release).
//
// # The way of an entry
//
//	Submit      any goroutine     the entry joins its stream's queue; never blocks
//	window      writer            the group closes when the first of: an entry does not want to
//	                              wait, the earliest deadline, the smallest limit, nobody left to wait for,
//	                              arrivals have dried up
//	write       writer            round-robin over streams, LSNs given, ~4 MiB a write, past the page cache
//	sync        writer            one datasync; from here the entries are durable
//	tell        notifier          Owner.Durable in LSN order; the writer is already at the next group
//
// Three invariants. (1) An Owner is told of success only after a datasync that
// began after the entry's last byte was written, and after every entry with a
// smaller LSN is durable too. (2) After the first failed write or datasync
// nothing is written to that file again and every entry that is not durable is
// told of the failure; the journal then stands still until Fresh and Resume.
// (3) No write touches a 4 KiB block that holds acknowledged frames: a disk that loses
// power during a write may ruin all of it.
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
