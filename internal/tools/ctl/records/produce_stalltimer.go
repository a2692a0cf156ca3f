package records

import "time"

// stallTimer calls back if records are in flight and none is acknowledged for some time. The
// client's own limit counts from a record's timestamp, which is useless for records that bring
// their own. The caller's lock guards it.
type stallTimer struct {
	limit   time.Duration
	waiting int
	timer   *time.Timer
}

// begin sets the limit and the function to call, on its own goroutine, when it has passed.
func (s *stallTimer) begin(limit time.Duration, expired func()) {
	s.limit = limit
	s.timer = time.AfterFunc(limit, expired)
	s.timer.Stop()
}

// sent counts a record in flight.
func (s *stallTimer) sent() {
	if s.waiting++; s.waiting == 1 {
		s.timer.Reset(s.limit)
	}
}

// answered counts an answer. The remaining records get the whole limit again.
func (s *stallTimer) answered() {
	if s.waiting--; s.waiting == 0 {
		s.timer.Stop()
		return
	}
	s.timer.Reset(s.limit)
}
