package pause

import (
	"sync"
	"time"
)

// IdleShare is how many times as long costly work pauses as it took. So it takes at most a tenth of
// a processor.
const IdleShare = 9

// Seldom is a value that is costly to compute, for callers that cost little themselves: it takes at
// most a tenth of a processor, however many they are. The zero value is ready for use.
type Seldom[T any] struct {
	mu    sync.Mutex
	value T
	next  time.Time // when it may be computed again
}

// Of returns what compute returns, or what it returned last. Calls wait for one that computes.
func (s *Seldom[T]) Of(compute func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := time.Now()
	if begun.Before(s.next) {
		return s.value
	}
	s.value = compute()
	s.next = time.Now().Add(IdleShare * time.Since(begun))
	return s.value
}
