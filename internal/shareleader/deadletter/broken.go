package deadletter

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that the walks detect its absence. See package
// breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	AppendAnyway Rule = 1 << iota // copies are appended after a batch that their sender does not know
	BelieveAll                    // a leader takes copies of a former one for those of its own records
	BelieveBelow                  // the same for offsets below the end of the former one's leader epoch
	AskEarly                      // copies that are not committed count
	EpochInID                     // leaders far apart have different producer ids
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
