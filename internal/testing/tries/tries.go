// Package tries bounds the number of similar histories that a test tries. The test's own number
// serves every change; an environment variable asks for more, as a number or as a duration. It
// does not know what a history is.
package tries

import (
	"iter"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/race"
)

// Of yields 0, 1, 2 and so on, for the histories of a test. The environment variable holds how many
// there are ("5000"), or how long they take ("45s"): then another one begins until that time is
// over, and at least one does. Without the variable there are few.
func Of(t testing.TB, variable string, few int) iter.Seq[int] {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return most(few)
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return most(n)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q: use a number like 5000, or a duration like 45s", variable, text)
	}
	return within(d, time.Now)
}

func most(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

func within(d time.Duration, now func() time.Time) iter.Seq[int] {
	return func(yield func(int) bool) {
		end := now().Add(d)
		for i := 0; yield(i) && now().Before(end); i++ {
		}
	}
}

// Some returns how many of n similar histories a test tries: all if CHRONIK_EVERY_CALL is set, few
// under the race detector, and otherwise a number in between, which is nearer to few.
func Some(n, few int) int {
	switch {
	case race.Detector:
		return few
	case os.Getenv("CHRONIK_EVERY_CALL") != "":
		return n
	}
	return (n + 2*few) / 3
}
