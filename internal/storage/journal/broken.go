package journal

// Rule is a rule that tests disable, to verify that a test fails without it. Only a build with the
// tag breakrules can disable rules.
type Rule uint8

const (
	// IgnoreSalt accepts frames of a file's earlier use.
	IgnoreSalt Rule = 1 << iota
	// ReuseLSNs lets a fresh file assign lost LSNs again.
	ReuseLSNs
	// IgnoreDamage accepts any bytes after the first invalid frame as the ordinary end.
	IgnoreDamage
)
