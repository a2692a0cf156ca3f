//go:build !race

package race

// Detector reports that the race detector watches this process.
const Detector = false
