// Package checkpoint keeps what a log directory must know at a start: from where on
// the journal is needed, and for each log its recovery point, leader epochs, producer
// state and fate.
//
// It owns the types and their encoding; internal/statelog keeps them as a snapshot and
// a log of changes. An event of one log costs a record about that log, not the state of
// all of them. The package knows neither segments nor how a log is recovered.
//
// # Records
//
// Numbers are little-endian. A length or a count is a uvarint, a string follows its
// length.
//
//	snapshot    one record for each log: 1 u8, then "log"; at last a record: 2 u8, then "header"
//	log         one record "change" for each Append
//
//	header      sequence u64 | redo file u64 | redo LSN u64 | durable LSN u64
//	            | directory id 16 | journal id 16 | clean u8
//	change      header | count { log }
//	log         topic id 16 | partition i32 | flags u8 | topic string | reason of being offline string
//	            | file with frames set aside string | log start i64 | first offset not compacted i64
//	            | base of the segment that takes the place of others i64 | recovery point
//	            | count { leader epoch i32, its first offset i64 }
//	            | producers, as producers.State.Append writes them, as a string, if flag 4 is set
//	recovery    offset i64 | LSN u64 | count { segment base i64, size i64 }
//	point
//	flags       1 deleted, 2 a swap is under way, 4 with producers
//
// Producers that a record lacks are those of the log's record before. The first record of a
// log has them.
//
// # Commits
//
// An Append or a WriteAll that returned is durable, in the directory and in its
// mirror. After an error, or a crash during the call, a start may find the old state
// or the new one: the caller must do nothing that is wrong under either, and the next
// commit must be a WriteAll.
package checkpoint
