// Package election decides who leads a partition and who is in its ISR and ELR when a broker fails,
// returns, drains or gives a leadership up. It is pure: a record and what the controller knows
// about the brokers in, the next record out. It has no I/O, no goroutines and no clock.
//
// The controller runs it on the metadata leader and writes each record with a compare of the
// record's revision. A decision that was refused is taken again on the record that won.
package election
