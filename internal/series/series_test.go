package series

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestFewOfManyFailuresAreSaid(t *testing.T) {
	var f Failures
	var said []int
	for range 40 {
		if n, say := f.Failed("a", syscall.EIO); say {
			said = append(said, n)
		}
	}
	if want := []int{1, 2, 3, 5, 9, 17, 33}; !slices.Equal(said, want) {
		t.Errorf("the failures %v of a series were said instead of %v", said, want)
	}
}

// Each of these begins a series, so that its first failure is said.
func TestAnotherSeriesBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Failures
		mark := errors.New("the directory fails")
		fail := func(key string, err error) bool {
			for range 3 { // the 4th is not said
				f.Failed(key, fmt.Errorf("%w: %w", mark, syscall.EIO))
			}
			_, say := f.Failed(key, err)
			return say
		}
		if fail("a", fmt.Errorf("%w: next attempt in %v: %w", mark, time.Second, syscall.EIO)) {
			t.Error("another text of the same cause was said")
		}
		if !fail("b", fmt.Errorf("%w: %w", mark, syscall.ENOSPC)) {
			t.Error("another cause was not said")
		}
		if n, say := f.Failed("c", syscall.EIO); n != 1 || !say {
			t.Errorf("another key: failure %d, said: %v", n, say)
		}
		time.Sleep(Quiet)
		if n, say := f.Failed("a", syscall.EIO); n != 1 || !say {
			t.Errorf("after a long time: failure %d, said: %v", n, say)
		}
		if !f.Ended("a") || f.Ended("a") {
			t.Error("the series did not end once")
		}
		if n, _ := f.Failed("a", syscall.EIO); n != 1 {
			t.Errorf("after a success: failure %d", n)
		}
	})
}

// Two causes that take turns are two counts; texts that are all different are not said each time.
func TestCausesThatAlternateAreNotSaidEachTime(t *testing.T) {
	for what, text := range map[string]func(i int) string{
		"two":      func(i int) string { return fmt.Sprint(i % 2) },
		"each new": func(i int) string { return fmt.Sprint(i) },
	} {
		var f Failures
		said := 0
		for i := range 1000 {
			if _, say := f.Failed("a", errors.New(text(i))); say {
				said++
			}
		}
		if said > 24 {
			t.Errorf("%s: %d of 1000 failures were said", what, said)
		}
	}
}

// Keys may be names that clients choose: beyond the bound, few of them are said, and none is
// remembered.
func TestSeriesAreBounded(t *testing.T) {
	var f Failures
	said := 0
	for i := range 100 * most {
		if _, say := f.Failed(fmt.Sprint(i), syscall.EIO); say {
			said++
		}
	}
	if len(f.all) > most+1 || said > most+32 {
		t.Errorf("%d series are remembered, %d failures were said", len(f.all), said)
	}
}

func TestEndedSeriesTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Failures
		for round := range 4 {
			for i := range most {
				f.Failed(fmt.Sprint(round, i), syscall.EIO)
			}
			time.Sleep(Quiet)
		}
		if n := len(f.all); n > most+1 {
			t.Errorf("%d series are remembered", n)
		}
	})
}
