// Package kv is the state behind every back end of metadata.Store: keys with versioned values, the
// decision whether a transaction holds, and the recent history for watchers.
//
// It owns no file and no goroutine. The back end replicates a transaction, and then View.Apply
// decides and shows it.
//
// The same transactions in the same order give the same state, revisions and outcomes on every
// node: a decision depends on nothing but the state. The revision grows by one with each
// transaction that changes something, so that it has no gaps.
//
// State has no lock and belongs to the back end's writer. View adds the lock that readers and
// watchers need. The package does not interpret keys or values.
package kv
