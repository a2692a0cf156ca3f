// Package inspect checks a data directory that no broker uses: it reports the contents and the
// damage, what the broker would do about it at startup, and what a repair would lose.
//
// It owns the list of kinds of damage and the plan of a repair. Verify and Dump change nothing,
// whatever they find. What they report about startup is what storage does, because they call
// storage's own code. Repair changes nothing before every file that it will change is copied and
// synced. It loses nothing that its plan did not announce, and leaves at each moment a directory
// that recovery or a second repair can handle. chronikctl log calls the package. It knows nothing
// about command lines, prints nothing, and makes no decision for an operator.
//
// docs/log.md is the manual.
package inspect
