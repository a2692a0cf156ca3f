package tries

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/race"
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

// A test tries all histories where a person or the CI asks for that, and fewer on each change.
func TestSomeOfTheHistories(t *testing.T) {
	for value, want := range map[string]int{"": 5, "1": 9} {
		if race.Detector {
			want = 3
		}
		t.Setenv("CHRONIK_EVERY_CALL", value)
		if got := Some(9, 3); got != want {
			t.Errorf("CHRONIK_EVERY_CALL=%q: %d, want %d", value, got, want)
		}
	}
}
