// Package inspect looks at the data directory that no broker uses: what is there,
// what is damaged, what a start would make of it, and what a repair would lose.
//
// It owns the list of kinds of damage and the plan of a repair. It promises that
// Verify and Dump change nothing, whatever they find; that what they say a start
// would do is what storage does, because they ask storage's own code; and that
// Repair changes nothing before every file that it will change is copied and synced,
// loses nothing that its plan didn't announce, and leaves at each moment a directory
// that a start or a second repair handles. chronikctl log calls it. It knows nothing
// of command lines, prints nothing, and decides nothing for an operator.
//
// docs/log.md is the page for people.
package inspect
