// Package breakrules has the switches of rules that tests remove, to prove that they detect the
// absence of each. A package declares its rules as bits of a type, and asks Removed.Has where the
// code keeps a rule. It does not know what a rule says.
//
// Only a build with the tag breakrules can remove rules. In any other one Removed is empty and Has
// is always false, so that the compiler eliminates the code that depends on it.
package breakrules

// Rule is a type whose bits are rules.
type Rule interface{ ~uint16 | ~uint32 | ~uint64 }
