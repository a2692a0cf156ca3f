// Package bufpool owns the memory that request bytes live in: pooled,
// reference-counted buffers, and byte budgets that bound how much of it clients
// can make the broker hold (invariants I13 and I15).
//
// It promises that a buffer has one owner at a time: whoever got or retained it
// releases it exactly once, and nobody touches its bytes after the last Release.
// Built with -race or the tag "invariants", released memory is overwritten and a
// use after release or a second release panics.
//
// network gets buffers and charges budgets; handlers retain a request's buffer
// when they need its bytes beyond the response. The package knows nothing of
// frames, records or files.
package bufpool
