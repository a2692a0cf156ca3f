package stream

// rule is a rule of replication that a test can remove to prove that the walks detect its absence.
// Only a build with the tag breakrules can remove rules.
type rule uint32

// The rules, named after what happens without them.
const (
	keepDiverged  rule = 1 << iota // a leader accepts any log
	resetAnything                  // a follower truncates below its high watermark
	ignoreEnds                     // a slot stays after its log end moved back
	trustBatches                   // a follower does not verify the checksums of batches
	cutLeaders                     // a truncation happens although the role has changed
)
