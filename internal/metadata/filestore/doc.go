// Package filestore keeps metadata in a directory of one node: a snapshot of all
// keys and a log of the transactions since.
//
// It owns that directory and implements metadata.Store. It promises that a
// transaction whose Txn returned is there after a crash or a loss of power, and
// that one which did not is there as a whole or not at all. Transactions that
// arrive while the disk is busy share the next fdatasync.
//
// # Files
//
//	<generation>.snapshot   all keys as they were when the generation began
//	<generation>.log        every transaction since
//	<generation>.snapshot.tmp
//
// A generation is a number in 16 hexadecimal digits. A new one begins when the
// log has grown, and at every open:
//
//	1  write <n+1>.log, header only; sync it, sync the directory
//	2  write <n+1>.snapshot.tmp; sync it
//	3  rename it to <n+1>.snapshot; sync the directory     <- the new generation is in force
//	4  remove the files of older generations
//
// What a crash leaves, and what Open makes of it:
//
//	before 3   a log without a snapshot that holds no transaction, a .tmp: removed
//	in 3       the rename is there or not: n+1 with an empty log, or n
//	in 4       files of older generations: removed
//
// So where there is a snapshot there is its log; a missing one is damage. A log
// is never written again by another process: what Open finds may never have
// reached the disk, so it is written and synced anew before anyone sees it.
//
// # Damage
//
// One frame is written and synced at a time, so only the last one can be torn. A
// log whose invalid part has nothing valid behind it is cut there; an invalid
// frame with a valid one behind it, and every fault in a snapshot, is damage: an
// error that names the file and the offset, nothing is changed. Close ends the
// log with a frame of its own, so that after a clean stop even the last
// transaction is held against its checksum.
//
// After a failed write or sync nothing more is written to that file (I5). The
// next transaction tries to begin a new generation from what was confirmed; it and
// those after it fail until that succeeds. Reading goes on.
package filestore
