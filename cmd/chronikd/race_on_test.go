//go:build race

package main

// raceDetector is on where this test binary, which is also the broker unless CHRONIKD names another, keeps a shadow of all
// memory: several times what the broker needs.
const raceDetector = true
