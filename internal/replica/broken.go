package replica

// Rule is a rule that a test can remove to prove that others detect its absence. See package
// breakrules.
type Rule uint16

// The rules of freezes.
const (
	ShowFrozen Rule = 1 << iota // clients learn what is new of a partition although it is frozen
)
