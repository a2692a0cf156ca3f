//go:build race || invariants

package bufpool

// Invariants reports whether this build checks ownership; see the package comment.
const Invariants = true
