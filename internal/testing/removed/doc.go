// Package removed has the invariants and the rules of a cluster whose absence a test of their own
// package detects, for rules that have no switch of the tag breakrules. For each rule there is a
// change of the code that removes it. With the tag removals, the package's test makes the changes
// one by one in an overlay of the build, and runs the tests that must then fail.
//
// It has no code of its own outside its tests, and no package imports it.
package removed
