//go:build breakrules

package controller

// broken names the rules that a test has removed.
type broken struct{ rules rule }

func (b broken) has(r rule) bool { return b.rules&r != 0 }
