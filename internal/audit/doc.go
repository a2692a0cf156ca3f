// Package audit writes who did what to a broker, and what was refused: one JSON object a line.
//
// Record counts equal events, so that a client which repeats itself, or a flood of them, cannot
// fill the disk: of each cause there is one line, and then at most one every 10 seconds with the
// number of events. Only changes have a line each. The number of causes is bounded, in all and for
// each address; what is above the bounds is counted in a line "overflow". Refusals, sessions and
// changes have bounds and sinks of their own, so that none of them hides or overwrites another.
// Record never waits. If the disk or the journal is slow or full, lines are dropped, those of
// refusals first. A line "lost" gives their number when writing works again.
//
// Lines contain text from clients. Such text is at most 256 bytes, a value before or after a change
// at most 8 KiB, and none of it can end a line or contain control characters, so that a client
// cannot write a line of its own, or change a terminal. It knows neither requests nor the metadata:
// its callers say what happened.
package audit
