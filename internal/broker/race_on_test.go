//go:build race

package broker

// raceDetector reports that the race detector watches the tests: then fewer variants of what one
// goroutine does are tried, because it makes them ten times as slow and finds nothing in them.
const raceDetector = true
