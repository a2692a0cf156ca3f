package stream

import "github.com/chronik-io/chronik/internal/breakrules"

// rule is a rule of replication that a test can remove to prove that the walks detect its absence.
// See package breakrules.
type rule uint32

// The rules, named after what happens without them.
const (
	KeepDiverged    rule = 1 << iota // a leader accepts any log
	resetAnything                    // a follower truncates below its high watermark
	ignoreEnds                       // a slot stays after its log end moved back
	trustBatches                     // a follower does not verify the checksums of batches
	cutLeaders                       // a truncation happens although the role has changed
	forgetProducers                  // a log that begins again knows no producers
)

// broken names the rules that a test has removed.
type broken = breakrules.Removed[rule]
