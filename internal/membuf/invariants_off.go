//go:build !race && !invariants

package membuf

// Invariants says that this build checks ownership: see the package comment.
const Invariants = false
