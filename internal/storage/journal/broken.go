package journal

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that tests disable, to verify that a test fails without it. See package
// breakrules.
type Rule uint16

// The rules, named after what happens without them.
const (
	IgnoreSalt   Rule = 1 << iota // frames of a file's earlier use are accepted
	ReuseLSNs                     // a fresh file assigns lost LSNs again
	IgnoreDamage                  // any bytes after the first invalid frame count as the ordinary end
	NoSkip                        // no frame leads to one whose pieces were written ahead
	Overtake                      // later entries of a stream are written before its large one
	KeepPart                      // Drop leaves an entry of which pieces are written
	WrittenFirst                  // an entry is reported as written before an earlier one of its stream is durable
	CountCurrent                  // the current file, which no Release frees, keeps the next one from beginning
	BelowRedo                     // a recovery passes on frames that no log needs any longer
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
