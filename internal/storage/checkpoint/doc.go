// Package checkpoint stores the state that a log directory needs at startup: the position from
// which the journal must be read, and for each log its recovery point, leader epochs, producer
// state, and whether it is offline or deleted.
//
// It owns the types and their encoding; internal/statelog stores them as a snapshot and a log of
// changes. An event of one log costs a record about that log, not the state of all logs. The
// package knows neither segments nor how a log is recovered.
//
// # Records
//
// Numbers are little-endian. Lengths and counts are uvarints; a string is preceded by its length.
//
//	snapshot    one record for each log: 1 u8, then "log", then its led epoch i32 if it notes one;
//	            the last record: 2 u8, then "header"
//	log         one record "change" for each Append
//
//	header      sequence u64 | redo file u64 | redo LSN u64 | durable LSN u64
//	            | directory id 16 | journal id 16 | boot id 16
//	            | finding: id 16, sequence u64 | cluster id 16
//	            | generation of its metadata 16 | clean u8
//	change      header | count { log } | if any of them notes a led epoch: count { position in
//	            the list uvarint, led epoch i32 }
//	log         topic id 16 | partition i32 | flags u8 | topic string | why it is offline string
//	            | quarantine file string | log start i64
//	            | high watermark i64, its leader epoch i32 | first offset not compacted i64
//	            | end of what compaction relied on uvarint
//	            | base of the segment that replaces others i64 | recovery point
//	            | count { leader epoch i32, its first offset i64 }
//	            | producers, as producers.State.Append writes them, as a string, if flag 4 is set
//	            | if flag 32 is set: count { position in the recovery point's list uvarint,
//	              entries of the segment's index of aborted transactions u32, their CRC-32C u32 }
//	            | if flag 64 is set: count { base of the segment i64, position of unreadable bytes
//	              i64, their number i64, first offset that they held i64, the offset after them i64 }
//	recovery    offset i64 | LSN u64 | count { segment base i64, size i64 }
//	point
//	flags       1 deleted, 2 a swap is in progress, 1 and 2 moved to another directory, 4 with
//	            producers, 8 acknowledges written records, 16 may have lost acknowledged records,
//	            32 has aborted transactions, 64 has known damage, 128 another replica may
//	            have records that this one lacks
//
// If a record lacks producers, they are those of the log's previous record. The first record of
// a log has them.
//
// 2^32 - 1 entries mean that the index must be built from the segment.
//
// # Commits
//
// When Append or WriteAll returns without error, the commit is durable in the directory and in its
// mirror. After an error, or a crash during the call, recovery may find the old or the new state.
// The caller must do nothing that is wrong under either, and the next commit must be a WriteAll.
package checkpoint
