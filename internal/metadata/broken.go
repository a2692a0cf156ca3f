package metadata

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that histories of whole brokers detect its
// absence. See package breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	NoGap Rule = 1 << iota // a generation continues with numbers that an earlier one may have given
)

// broken names the rules that a test has removed.
type broken = breakrules.Removed[Rule]
