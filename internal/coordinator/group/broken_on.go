//go:build breakrules

package group

// Broken names the rules that a test has removed.
type Broken struct{ Rules Rule }

func (b Broken) has(r Rule) bool { return b.Rules&r != 0 }
