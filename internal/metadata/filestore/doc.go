// Package filestore keeps metadata in a directory of one node: a snapshot of all keys and a log of
// the transactions since.
//
// It owns that directory and implements metadata.Store. A transaction whose Txn returned survives a
// crash or a loss of power. Any other transaction is either complete or absent. Transactions that
// arrive while the disk is busy share the next fdatasync.
//
// internal/statelog writes the files, and defines which remains of a crash are normal and what is
// damage. The records are:
//
//	snapshot  key modRevision value; one record for each key, in order
//	log       nPut { key value } nDelete { key }; one record for each transaction
//
// Numbers are uvarints; keys and values follow their length. A record's number is the revision
// after the transaction. The conditions of a transaction are not recorded.
//
// After a failed write or sync the store writes nothing more to that log (I5). The next transaction
// tries to begin a new generation from the confirmed state; transactions fail until that succeeds.
// Reads continue to work.
package filestore
