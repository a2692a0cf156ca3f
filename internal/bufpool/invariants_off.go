//go:build !race && !invariants

package bufpool

// Invariants says that this build checks ownership: see the package comment.
const Invariants = false
