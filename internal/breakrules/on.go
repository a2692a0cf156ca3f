//go:build breakrules

package breakrules

import "sync"

// Removed names the rules that a test has removed.
type Removed[R Rule] struct{ Rules R }

// everywhere maps the zero value of a type of rules to those that are removed in the whole process.
var everywhere sync.Map

// Everywhere removes a rule in the whole process, for tests of whole brokers, until restore is
// called. Neither may be called while a broker runs.
func Everywhere[R Rule](rule R) (restore func()) {
	everywhere.Store(R(0), rule)
	return func() { everywhere.Delete(R(0)) }
}

// Without returns a Removed that removes a rule, or several.
func Without[R Rule](rule R) Removed[R] { return Removed[R]{rule} }

// Has reports whether a rule is removed.
func (b Removed[R]) Has(rule R) bool {
	all := b.Rules
	if more, ok := everywhere.Load(R(0)); ok {
		all |= more.(R)
	}
	return all&rule != 0
}
