// Package copies keeps a second copy of a metadata store in another directory, preferably on
// another disk, while too few brokers have the metadata to survive the loss of one.
//
// It owns that directory. The copy is not a mirror of the store's files (statelog.Mirror): a disk
// that hangs or fails delays a transaction by at most Options.Patience, and the copy catches up
// later. It knows neither what a key means nor how many voters there are: its caller starts and
// stops it.
//
// internal/statelog writes the files, and defines which remains of a crash are normal and what is
// damage. The records are:
//
//	snapshot  key modRevision value; one record for each key, in order
//	log       nPut { key value } nDelete { key }; one record for each transaction
//
// Numbers are uvarints; keys and values follow their length. A record's number is the revision
// after the transaction. The conditions of a transaction are not recorded.
package copies
