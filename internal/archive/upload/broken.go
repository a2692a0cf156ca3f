package upload

// Rule is a rule that a test can remove to prove that others detect its absence. See package
// breakrules.
type Rule uint16

// The rules of uploads.
const (
	TrustFormer Rule = 1 << iota // what an archive has counts as the beginning of the log
)
