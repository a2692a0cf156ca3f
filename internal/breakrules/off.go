//go:build !breakrules

package breakrules

// Removed removes no rule.
type Removed[R Rule] struct{}

// Without returns a Removed that removes nothing: this build has all rules.
func Without[R Rule](R) Removed[R] { return Removed[R]{} }

// Has reports that a rule is not removed.
func (Removed[R]) Has(R) bool { return false }
