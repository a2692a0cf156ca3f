package membership

import (
	"time"

	"github.com/chronik-io/chronik/internal/controller"
)

// Session is a broker's own view of its session with the controller: pure state without I/O or a
// clock. Times are monotonic. It is not safe for concurrent use.
//
// An answer says that the controller has seen an earlier answer of its own arrive, and that this
// broker has applied what the controller knew then. It grants a lease from the moment at which that
// heartbeat was *sent*. So the lease never outlives the controller's session for this broker; see
// controller.HeartbeatAnswer.
type Session struct {
	next   uint64               // sequence of the next heartbeat
	sent   map[uint64]time.Time // heartbeats whose lease may still be granted
	answer uint64               // sequence of the last answered heartbeat, 0 for none
	until  time.Time            // end of the lease
}

// maxUnanswered bounds the heartbeats that may still be answered or named by an answer.
const maxUnanswered = controller.MaxUnproven

// NewSession returns a session without a lease.
func NewSession() *Session { return &Session{next: 1, sent: map[uint64]time.Time{}} }

// Begin begins a session of a new registration, or with another controller. Answers to earlier
// heartbeats no longer count, and there is no lease until an answer grants one.
func (s *Session) Begin() {
	clear(s.sent)
	s.answer = 0
	s.until = time.Time{}
}

// Send records that a heartbeat is about to be sent, and returns its sequence and that of the last
// answer, 0 for none.
func (s *Session) Send(now time.Time) (sequence, answered uint64) {
	sequence = s.next
	s.next++
	delete(s.sent, sequence-maxUnanswered)
	s.sent[sequence] = now
	return sequence, s.answer
}

// Newest returns the sequence of the newest heartbeat, 0 for none.
func (s *Session) Newest() uint64 { return s.next - 1 }

// Answered records an answer to a heartbeat: the lease lasts at least until the given time after
// heartbeat proven was sent. Unknown sequences have no effect.
func (s *Session) Answered(sequence, proven uint64, lease time.Duration) {
	if _, ok := s.sent[sequence]; !ok {
		return
	}
	s.answer = max(s.answer, sequence)
	at, ok := s.sent[proven]
	if end := at.Add(lease); ok && lease > 0 && end.After(s.until) {
		s.until = end
	}
}

// Lease returns until when the broker may assume that the controller has not fenced it. The zero
// time means never.
func (s *Session) Lease() time.Time { return s.until }
