package pause

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestASeldomValueTakesATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Seldom[int]
		n := 0
		for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
			if got := s.Of(func() int { n++; time.Sleep(100 * time.Millisecond); return n }); got != n {
				t.Fatalf("%d, last computed %d", got, n)
			}
		}
		if n < 9 || n > 10 {
			t.Errorf("computed %d times in 10 s, each for 100 ms", n)
		}
	})
}
