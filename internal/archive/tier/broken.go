package tier

// Rule is a rule that a test can remove to prove that others detect its absence. See package
// breakrules.
type Rule uint16

// The rules of copies.
const (
	CopyUnstable  Rule = 1 << iota // records of open transactions are copied
	CopyVolatile                   // records that are not durable here are copied
	TrustCopy                      // what the store has counts as what the log has, after an election, too
	AnyCollection                  // objects are named that a collection may delete
	TrustNames                     // the store counts as having what recovered metadata name
)
