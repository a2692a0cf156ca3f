//go:build breakrules

package progress

// Broken names the rules that a test has removed.
type Broken struct{ Rules Rule }

// Everywhere are rules that are removed in all of the process, for tests of whole brokers. It must
// not change while a broker runs.
var Everywhere Rule

func (b Broken) has(r Rule) bool { return (b.Rules|Everywhere)&r != 0 }
