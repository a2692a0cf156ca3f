package tierread

// Rule is a rule that a test can remove to prove that others detect its absence. See package
// breakrules.
type Rule uint16

// The rules of reads.
const (
	TrustChunks   Rule = 1 << iota // chunks are not verified
	TransferAlone                  // each caller begins a transfer of its own
)
