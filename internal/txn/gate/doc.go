// Package gate is the step before the append of a transactional batch: a batch that would begin a
// transaction in a partition waits until the transaction's coordinator permits it.
package gate
