//go:build race

package sim

// raceDetector reports that the race detector watches the tests: then fewer walks are tried,
// because it makes them ten times as slow and finds nothing in the later ones.
const raceDetector = true
