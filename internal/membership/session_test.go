package membership

import (
	"testing"
	"time"
)

func TestTheLeaseCountsFromTheSentHeartbeat(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := NewSession()
	s.Begin()
	first, answered := s.Send(at(0))
	if answered != 0 {
		t.Fatalf("the first heartbeat names answer %d", answered)
	}
	s.Answered(first, 0, 0)
	if !s.Lease().IsZero() {
		t.Fatal("a lease before the controller knows that an answer arrived")
	}
	second, answered := s.Send(at(500))
	if answered != first {
		t.Fatalf("the second heartbeat names answer %d, want %d", answered, first)
	}
	s.Answered(second, first, 3*time.Second)
	if got := s.Lease(); !got.Equal(at(3000)) {
		t.Errorf("lease until %v, want the first heartbeat's time + 3 s", got.Sub(start))
	}
	third, _ := s.Send(at(1000))
	s.Answered(third, second, 2*time.Second) // the controller has not been confirmed for a second
	if got := s.Lease(); !got.Equal(at(3000)) {
		t.Errorf("a shorter lease moved it to %v", got.Sub(start))
	}
	s.Answered(99, third, time.Hour)
	s.Answered(third, 99, time.Hour)
	if got := s.Lease(); !got.Equal(at(3000)) {
		t.Errorf("an unknown heartbeat moved the lease to %v", got.Sub(start))
	}
	fourth, _ := s.Send(at(1500))
	s.Begin() // registered again: earlier heartbeats no longer count
	s.Answered(fourth, third, 3*time.Second)
	if !s.Lease().IsZero() {
		t.Error("an answer of an earlier session renewed the lease")
	}
	for range 1000 {
		s.Send(at(3000))
	}
	if len(s.sent) > maxUnanswered {
		t.Errorf("%d unanswered heartbeats are remembered", len(s.sent))
	}
}
