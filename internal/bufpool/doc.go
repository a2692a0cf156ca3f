// Package bufpool owns the memory of requests and answers: pooled, reference-counted buffers,
// scratches to encode into, and byte budgets that bound how much of it clients can make the broker
// hold (invariants I13 and I15).
//
// It promises that a buffer has one owner at a time. Each reference is released exactly once, and
// no code uses the bytes after the last Release. In builds with -race or the tag "invariants",
// released memory is overwritten, and a use after release or a second release panics.
//
// network gets buffers and charges budgets; handlers retain a request's buffer if they need its
// bytes after the response. The package knows nothing about frames, records or files.
package bufpool
