package few

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// A set and a map of all members with the property agree, whatever happens while All examines them.
func TestAllFindsWhatHasTheProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set[int]
		has := map[int]bool{}
		change := func(where string) {
			k := rapid.IntRange(0, 5).Draw(t, where+" member")
			if has[k] = rapid.Bool().Draw(t, where+" has it"); has[k] {
				s.Name(k)
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			change("before")
			s.All(func(k int) bool {
				is := has[k]
				if rapid.Bool().Draw(t, "a change during All") {
					change("during")
				}
				return is
			})
			var want []int
			for k := range 6 {
				if has[k] {
					want = append(want, k)
				}
			}
			got := s.All(func(k int) bool { return has[k] })
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("All returned %v, want %v", got, want)
			}
		}
	})
}

// A member without the property is examined once, not for ever.
func TestAllForgets(t *testing.T) {
	var s Set[int]
	for k := range 100 {
		s.Name(k)
	}
	for _, want := range []int{100, 1, 1} {
		examined := 0
		all := s.All(func(k int) bool { examined++; return k == 7 })
		if examined != want || !slices.Equal(all, []int{7}) {
			t.Errorf("examined %d members and found %v, want %d and [7]", examined, all, want)
		}
	}
}

// Goroutines give and take the property, and others ask.
func TestConcurrentCalls(t *testing.T) {
	var s Set[int]
	var has [4]atomic.Bool
	is := func(k int) bool { return has[k].Load() }
	var work sync.WaitGroup
	for k := range has {
		work.Go(func() {
			for range 1000 {
				has[k].Store(true)
				s.Name(k)
				if !slices.Contains(s.All(is), k) {
					t.Errorf("member %d was not found", k)
					return
				}
				has[k].Store(false)
				s.All(is)
			}
		})
	}
	work.Wait()
	if len(s.named) > len(has) {
		t.Errorf("%d members are named", len(s.named))
	}
}
