//go:build breakrules

package journal

// Broken names the disabled rules, for tests.
type Broken struct{ Rules Rule }

func (b Broken) has(r Rule) bool { return b.Rules&r != 0 }
