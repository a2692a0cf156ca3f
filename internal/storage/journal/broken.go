package journal

// Rule is one of the rules that tests take away to see whether anything fails without it. Only a
// build with the tag breakrules can.
type Rule uint8

const (
	// Saltless says that frames of a file's former life count.
	Saltless Rule = 1 << iota
	// Reuse says that a fresh file gives LSNs again that were lost.
	Reuse
	// Unalarmed says that whatever follows the first invalid frame is the ordinary end.
	Unalarmed
)
