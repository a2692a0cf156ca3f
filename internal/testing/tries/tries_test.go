package tries

import (
	"testing"
	"time"
)

func TestTheVariableIsANumberOfHistories(t *testing.T) {
	const variable = "CHRONIK_TRIES_OF_A_TEST"
	for text, want := range map[string]int{"": 7, "3": 3, "0": 0, "1ns": 1} {
		t.Setenv(variable, text)
		next := 0
		for n := range Of(t, variable, 7) {
			if n != next {
				t.Fatalf("%q: %d after %d", text, n, next-1)
			}
			next++
		}
		if next != want {
			t.Errorf("%q: %d histories, want %d", text, next, want)
		}
	}
	for range Of(t, variable, 7) {
		break // a test that failed ends
	}
}

// A history that takes longer than the duration is the only one.
func TestNoHistoryBeginsAfterTheDuration(t *testing.T) {
	clock := time.Unix(0, 0)
	for takes, want := range map[time.Duration]int{time.Second: 45, 20 * time.Second: 3, time.Hour: 1} {
		n := 0
		for range within(45*time.Second, func() time.Time { return clock }) {
			clock = clock.Add(takes)
			n++
		}
		if n != want {
			t.Errorf("histories of %v: %d, want %d", takes, n, want)
		}
	}
}
