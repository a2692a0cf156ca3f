//go:build !race

package brokers

const raceDetector = false
