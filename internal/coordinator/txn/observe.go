package txn

import "time"

// Reason is what decided the end of a transaction.
type Reason string

// The reasons.
const (
	ByClient  Reason = "client"  // its producer
	ByTimeout Reason = "timeout" // it was open for longer than its timeout
	ByFence   Reason = "fenced"  // another producer has taken its transactional id
	ByLoss    Reason = "lost"    // __transaction_state may lack its end
)

// observeEnd reports that an open transaction is about to be decided.
func (s *Shard) observeEnd(t *transaction, commit bool, reason Reason) {
	if s.cfg.Decided != nil && t.state == Ongoing {
		s.cfg.Decided(commit, reason, max(0, s.now.Sub(time.UnixMilli(t.start))))
	}
}

// observeCrowd reports that there are too many ids.
func (s *Shard) observeCrowd(removed int, idle time.Duration) {
	if s.cfg.Crowded != nil {
		s.cfg.Crowded(removed, idle)
	}
}
