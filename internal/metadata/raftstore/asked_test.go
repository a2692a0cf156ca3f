package raftstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// A member stops waiting for the answer of a leader soon after another one leads, but not while
// none does.
func TestAFormerLeaderIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{asked: make(map[*asked]struct{}), roleMoved: make(chan struct{})}
		s.led(Leadership{Leader: 1})
		within, end := s.ask(t.Context(), 1)
		defer end()
		s.led(Leadership{})
		time.Sleep(time.Minute)
		if within.Err() != nil {
			t.Fatal("it does not wait, and none leads")
		}
		began := time.Now()
		s.led(Leadership{Leader: 2})
		<-within.Done()
		if waited := time.Since(began); waited != answerAfter {
			t.Errorf("it waits for %v", waited)
		}
		late, stop := s.ask(t.Context(), 1) // read before the change
		<-late.Done()
		stop()
		if len(s.asked) != 1 {
			t.Errorf("%d are asked", len(s.asked))
		}
	})
}
