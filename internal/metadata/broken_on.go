//go:build breakrules

package metadata

// broken names the rules that a test has removed.
type broken struct{}

// Everywhere are rules that are removed in all of the process, for tests of whole brokers. It must
// not change while a broker runs.
var Everywhere Rule

func (broken) has(r Rule) bool { return Everywhere&r != 0 }
