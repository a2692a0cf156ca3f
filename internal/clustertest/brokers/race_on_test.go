//go:build race

package brokers

// raceDetector reports that the race detector watches the tests: then fewer histories run,
// because it makes them ten times as slow and finds nothing in the later ones.
const raceDetector = true
