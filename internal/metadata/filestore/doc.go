// Package filestore keeps metadata in a directory of one node: a snapshot of all
// keys and a log of the transactions since.
//
// It owns that directory and implements metadata.Store. It promises that a
// transaction whose Txn returned is there after a crash or a loss of power, and
// that one which did not is there as a whole or not at all. Transactions that
// arrive while the disk is busy share the next fdatasync.
//
// internal/statelog keeps the files and describes what a crash leaves of them and
// what is damage. Here are the records:
//
//	snapshot  key modRevision value; one record for each key, in order
//	log       nPut { key value } nDelete { key }; one record for each transaction
//
// Numbers are uvarints, keys and values follow their length. A record's number is the
// revision after the transaction. The conditions of a transaction were met
// and are not kept.
//
// After a failed write or sync nothing more is written to that log (I5). The
// next transaction tries to begin a new generation from what was confirmed; it and
// those after it fail until that succeeds. Reading goes on.
package filestore
