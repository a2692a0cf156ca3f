//go:build race

package main

// raceDetector reports that this test binary, which is also the broker unless CHRONIKD names
// another, has a shadow of all memory, several times what the broker needs.
const raceDetector = true
