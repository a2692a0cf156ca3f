package metadata

// Rule is a rule that a test can remove to prove that histories of whole brokers detect its
// absence. Only a build with the tag breakrules can remove rules.
type Rule uint32

// The rules, named after what happens without them.
const (
	NoGap Rule = 1 << iota // a generation continues with numbers that an earlier one may have given
)
