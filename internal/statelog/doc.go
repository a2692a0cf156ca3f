// Package statelog keeps the state of one owner in a directory: a snapshot and
// a log of the records since.
//
// It owns the files and knows nothing of what a record means. A record is a
// sequence of bytes with a number: the first one that is ever appended has
// number 1, and each later one has the next. Append promises that its records are
// there after a crash or a loss of power once it returned, and that they are there
// all or not at all if it did not.
//
// # Files
//
//	<generation>.snapshot   records that amount to the state when the generation began
//	<generation>.log        every record since
//	<generation>.snapshot.tmp
//
// A generation is a number in 16 hexadecimal digits. The owner begins a new one with
// Rotate: after every Open, and when ShouldRotate reports that the log has grown.
//
//	1  write <n>.log, header only; sync it, sync the directory
//	2  write <n>.snapshot.tmp; sync it
//	3  rename it to <n>.snapshot; sync the directory     <- the new generation is in force
//	4  remove the files of older generations
//
// A generation gets a number above every number that is in use, so that no file is
// ever written twice. What a crash leaves, and what Open makes of it:
//
//	before 3   a log without a snapshot that holds no record, a .tmp: the next Rotate removes them
//	in 3       the rename is there or not: the new generation with an empty log, or the old one
//	in 4       files of older generations: the next Rotate removes them
//
// So every snapshot has its log; a missing one is damage. Open changes nothing.
// What it reads may be in the page cache only and not on the disk, therefore
// Append refuses to continue such a log: the owner must write its state into a new
// generation first.
//
// # Format
//
// Numbers are little-endian, lengths and counts in payloads are uvarints.
//
//	file header, 48 bytes             frame header, 24 bytes
//	 0  8  magic of the owner          0  4  fe 6d 66 ed
//	 8  1  'S' snapshot, 'L' log       4  1  kind
//	 9  1  zero                        5  3  zero
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
// Log id and generation in the checksum make a frame of another file invalid, and one
// that a client composed inside a value.
//
// # Damage
//
// One frame is written and synced at a time, so only the last one can be torn. A log
// whose invalid part has no valid frame behind it ends there. An invalid frame
// with a valid one behind it, and every fault in a snapshot, is damage: Open fails
// with an error that names the file and the offset. Close ends the log with a frame of
// its own, so that after a clean stop even the last record is held against its
// checksum. A flipped bit in the last frame of a log that was not closed can't be
// told from a torn write.
//
// After a failed Append or Rotate nothing more is written to that generation: what
// reached the disk is unknown. Only a Rotate that succeeds ends this, with the state
// that the owner had confirmed.
//
// # Mirror
//
// A second directory can receive the same files. An Append or a Rotate that returned
// is durable in both; after an error, or a crash during the call, either may hold its
// records or not. No start reads the mirror: Open compares only the names of
// its files, and refuses a directory that is empty where the mirror is not. Read
// checks a copy, and Restore puts it in the place of a lost or damaged one.
package statelog
