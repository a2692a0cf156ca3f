// Package statelog stores the state of one owner in a directory: a snapshot, and a log of the
// records appended since.
//
// The package owns the files and does not interpret records. A record is a sequence of bytes with a
// number: the first record ever appended has number 1, and each later one has the next. When Append
// returns without an error, its records survive a crash or a power loss. If it fails or a crash
// interrupts it, either all of its records survive or none.
//
// # Files
//
//	<generation>.snapshot   records that make up the state when the generation began
//	<generation>.log        every record since
//	<generation>.snapshot.tmp
//
// A generation is a number of 16 hexadecimal digits. The owner begins a new one with Rotate: after
// every Open, and when ShouldRotate reports that the log has grown.
//
//	1  write <n>.log, header only; sync it, sync the directory
//	2  write <n>.snapshot.tmp; sync it
//	3  rename it to <n>.snapshot; sync the directory     <- the new generation is in force
//	4  remove the files of older generations
//
// The number of a generation is above every number in use, so that no file is written twice. A
// crash has these effects:
//
//	before 3   a log without a snapshot and without records, a .tmp: the next Rotate removes them
//	in 3       the rename survives or not: the new generation with an empty log, or the old one
//	in 4       files of older generations: the next Rotate removes them
//
// An owner that must not wait for step 2 uses Begin and Finish instead of Rotate. Begin makes step
// 1, and later records go to the new log, whose header says that it continues the logs before it.
// Another goroutine makes step 2, and Finish steps 3 and 4. A crash before 3 leaves the former
// snapshot and its log, continued by one or more later logs: one for each snapshot that was not
// finished. The numbers of records show that none of these logs is missing.
//
// So every snapshot has its log; a missing log is damage. So is a later log with records that
// continues no other one: its snapshot is missing. Open changes nothing. What it reads may be only
// in the page cache and not on disk. Append therefore refuses to continue such a log: the owner
// must first write its state into a new generation.
//
// # Format
//
// Numbers are little-endian, lengths and counts in payloads are uvarints.
//
//	file header, 48 bytes             frame header, 24 bytes
//	 0  8  magic of the owner          0  4  fe 6d 66 ed
//	 8  1  'S' snapshot, 'L' log       4  1  kind
//	 9  1  1: continues the log        5  3  zero
//	       before it, 0 otherwise
//	10  2  format version              8  4  length of the payload
//	12  4  zero                       12  4  CRC-32C of log id, generation,
//	16 16  log id, random                    bytes 0..12 and 16..24, payload
//	32  8  generation                 16  8  number of the last record so far
//	40  4  zero                       24     payload
//	44  4  CRC-32C of bytes 0..44
//
//	kind        in        payload
//	1 records   log       { length record }, those of one Append
//	2 closed    log       -
//	3 state     snapshot  { length record }, about 1 MiB of them
//	4 end       snapshot  how many records; nothing follows
//
// Because the checksum covers the log id and generation, a frame of another file is invalid, and so
// is a frame that a client composed inside a value.
//
// # Damage
//
// One frame is written and synced at a time, so only the last frame of the newest log can be torn.
// If the invalid part of that log has no valid frame behind it, the log ends there. An invalid
// frame with a valid one behind it, and every fault in a snapshot, is damage: Open fails with an
// error that names the file and the offset.
//
// Close appends a closing frame, so that after a clean stop even the last record is verified. In a
// log that was not closed, a flipped bit in the last frame cannot be distinguished from a torn
// write.
//
// After a failed Append or Rotate, nothing more is written to that log, because the content
// of the disk is unknown. Only a successful Rotate ends this, with the state that the owner had
// confirmed.
//
// # Mirror
//
// A second directory can receive the same files. When Append or Rotate returns, its records are
// durable in both. After an error, or a crash during the call, either directory may or may not hold
// them. Open does not read the mirror: it compares only the names of its files, and refuses an
// empty directory if the mirror is not empty. Read verifies a copy, and Restore replaces a lost or
// damaged directory with it.
package statelog
