package txn

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// InitProducerID gives a producer its id and epoch and fences all producers that had the
// transactional id before. An open transaction is aborted first. The response is an Identity.
type InitProducerID struct {
	ID      string
	Timeout int32 // of its transactions, in ms
	// ProducerID and Epoch are those of a producer that continues after an error (KIP-360), both -1
	// for a new one.
	ProducerID int64
	Epoch      int16
}

// Identity is the response to InitProducerID and End: the id and epoch with which the producer
// continues. Err is nil for success, PRODUCER_FENCED whatever the version of the request.
type Identity struct {
	Err        *kerr.Error
	ProducerID int64
	Epoch      int16
}

// claim is how a request's producer id and epoch relate to those of a transactional id.
type claim int

const (
	stale   claim = iota
	former        // the ones before the present ones, which the same producer had
	present       // the present ones, or no claim at all
)

// claim compares the id and epoch that a producer says it has.
func (t *transaction) claim(pid int64, epoch int16) claim {
	now, nowEpoch := t.identity()
	switch {
	case pid == none:
		return present
	case pid == now && epoch == nowEpoch, pid == t.pid && epoch == t.epoch:
		return present
	case pid == t.pid && t.lastEpoch != none && epoch == t.lastEpoch:
		return former
	case t.previous != none && pid == t.previous && epoch == maxEpoch && t.epoch == 0:
		return former
	}
	return stale
}

func (s *Shard) initProducerID(to coordinator.Ticket, e InitProducerID, pid int64) {
	refuse := func(err *kerr.Error) { s.out.Reply(to, s.refusal(e, err)) }
	if e.ID == "" || (e.ProducerID == none) != (e.Epoch == none) {
		refuse(kerr.InvalidRequest)
		return
	}
	if e.Timeout <= 0 || time.Duration(e.Timeout)*time.Millisecond > s.cfg.MaxTimeout {
		refuse(kerr.InvalidTransactionTimeout)
		return
	}
	t := s.ids[e.ID]
	if t == nil && !s.hasRoom(e.ID) {
		refuse(kerr.CoordinatorLoadInProgress) // clients try again
		return
	}
	if t == nil {
		if pid == none {
			s.fetchProducerID(to, e)
			return
		}
		t = s.emit(e.ID, value{state: Empty, pid: pid, previous: none, next: none, timeout: e.Timeout, start: none})
		t.lastEpoch = none
		s.answer(to, t)
		return
	}
	c := t.claim(e.ProducerID, e.Epoch)
	switch {
	case t.state.prepared() && t.knows(e.ProducerID): // whether the epoch is right is known at the end
		s.parkRequest(to, e, e.ID, t)
	case c == stale:
		refuse(kerr.ProducerFenced)
	case t.state == Ongoing && !s.cfg.Broken.Has(FenceWithoutEnd):
		s.fence(e.ID, t, ByFence)
		s.parkRequest(to, e, e.ID, t)
	case c == former && t.epoch <= maxEpoch && !t.doubtful:
		s.answer(to, t)
	default:
		s.raise(to, e, t, pid)
	}
}

// knows reports whether a decided transaction is one of the producer's, or of its predecessors.
func (t *transaction) knows(pid int64) bool {
	return pid == none || pid == t.pid || pid == t.previous || pid == t.next
}

// raise gives a producer a new epoch, or a new id if there is no epoch left.
func (s *Shard) raise(to coordinator.Ticket, e InitProducerID, t *transaction, pid int64) {
	v, last := t.value, int16(none)
	if e.ProducerID != none {
		last = e.Epoch
	}
	exhausted := t.doubtful || v.epoch >= maxEpoch && !s.cfg.Broken.Has(WrapEpoch)
	switch {
	case exhausted && pid == none:
		s.fetchProducerID(to, e)
		return
	case exhausted:
		// Only the producer that had the last epoch may ask for the new id again.
		v.pid, v.previous, v.epoch = pid, none, 0
		if last != none {
			v.previous = t.pid
		}
		last, t.doubtful = none, false
	default:
		v.epoch = following(v.epoch)
	}
	if v.state != Ongoing { // it is not, unless a test has removed the rule
		v.state, v.partitions, v.start = Empty, nil, none
	}
	v.timeout = e.Timeout
	s.emit(e.ID, v)
	t.lastEpoch = last
	s.answer(to, t)
}

// following returns the epoch after e. It wraps, which only a broken rule makes possible.
func following(e int16) int16 {
	if e == math.MaxInt16 {
		return 0
	}
	return e + 1
}

// parkRequest lets an InitProducerID or End wait for the end of the transaction.
func (s *Shard) parkRequest(to coordinator.Ticket, event any, id string, t *transaction) {
	if s.cfg.MaxPark <= 0 {
		s.out.Reply(to, s.refusal(event, kerr.ConcurrentTransactions))
		return
	}
	s.park(t, id, parked{to, event, s.now.Add(s.cfg.MaxPark)})
}

// answer answers a request with the id and epoch of the next transaction.
func (s *Shard) answer(to coordinator.Ticket, t *transaction) {
	pid, epoch := t.identity()
	s.out.Reply(to, Identity{ProducerID: pid, Epoch: epoch})
}
