package journal

// Rule is one of the rules that tests take away to see whether anything fails without it. Only a
// build with the tag breakrules can.
type Rule uint8

const (
	// Saltless and Unalarmed are rules that tests take away.
	Saltless  Rule = 1 << iota // frames of a file's former life count
	Reuse                      // a fresh file gives LSNs again that were lost
	Unalarmed                  // whatever follows the first invalid frame, it is the ordinary end
)
