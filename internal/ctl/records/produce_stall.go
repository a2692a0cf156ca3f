package records

import "time"

// stall notices that nothing is answered while something is asked. The client's own
// limit counts from a record's timestamp, which is of no use for records that bring
// theirs. Its user's lock guards it.
type stall struct {
	limit   time.Duration
	waiting int
	timer   *time.Timer
}

// begin says what is called, on a goroutine of its own, when the limit is over.
func (s *stall) begin(limit time.Duration, expired func()) {
	s.limit = limit
	s.timer = time.AfterFunc(limit, expired)
	s.timer.Stop()
}

// sent counts a record that waits for its answer from now on.
func (s *stall) sent() {
	if s.waiting++; s.waiting == 1 {
		s.timer.Reset(s.limit)
	}
}

// answered counts an answer: whoever still waits has the whole limit again.
func (s *stall) answered() {
	if s.waiting--; s.waiting == 0 {
		s.timer.Stop()
		return
	}
	s.timer.Reset(s.limit)
}
