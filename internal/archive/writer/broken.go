package writer

// Rule is a rule that a test can remove to prove that others detect its absence. See package
// breakrules.
type Rule uint16

// The rules of the writer.
const (
	KeepVoid   Rule = 1 << iota // what was read counts although the log may no longer be that of the cut
	TrustKnown                  // a log counts as unchanged since its last upload
	UseDeleted                  // what a failed job has put counts although it may be deleted by now
)
