//go:build breakrules

package journal

// Broken names the rules that are taken away, for tests.
type Broken struct{ Rules Rule }

func (b Broken) has(r Rule) bool { return b.Rules&r != 0 }
