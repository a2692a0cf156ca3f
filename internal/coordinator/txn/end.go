package txn

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// End ends the transaction of a producer. The response is an Identity: with version 2, the producer
// continues with that id and epoch. TRANSACTION_ABORTABLE means that a commit was made an abort,
// because a partition may have lost records. The producer then ends the transaction again, with
// an abort.
type End struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Commit     bool
	Version    int16 // of the client's protocol: 1 (EndTxn 0 to 4) or 2 (from 5 on)
}

// repeats reports whether a request of version 2 repeats the one that has ended the last
// transaction: it has the epoch before the present one.
func (t *transaction) repeats(e End) bool {
	if e.Version < 2 || t.version < 2 {
		return false
	}
	return e.ProducerID == t.pid && e.Epoch == t.epoch-1 ||
		t.previous != none && e.ProducerID == t.previous && e.Epoch == maxEpoch && t.epoch == 0
}

func (s *Shard) end(to coordinator.Ticket, e End, pid int64) {
	t := s.ids[e.ID]
	refuse := func(err *kerr.Error) { s.out.Reply(to, s.refusal(e, err)) }
	if e.ID == "" {
		refuse(kerr.InvalidRequest)
		return
	}
	if t != nil && t.repeats(e) {
		s.repeatedEnd(to, e, t, pid)
		return
	}
	err := s.check(t, e.ProducerID, e.Epoch)
	if s.cfg.Broken.Has(AnyEndEpoch) && t != nil && t.state == Ongoing && t.pid == e.ProducerID {
		err = nil
	}
	same := t != nil && t.state.commits() == e.Commit
	switch {
	case err != nil:
		refuse(err)
	case t.state == Ongoing:
		s.endOngoing(to, e, t, pid)
	case t.state.prepared() && e.Version >= 2 && s.cfg.Broken.Has(FenceEarly):
		refuse(kerr.ProducerFenced)
	case t.state.prepared() && e.Version >= 2:
		// Its producer has the epoch from the answer to the end of the transaction before. Of the
		// next one, nothing has come: it discarded the records, or all were refused.
		s.parkRequest(to, e, e.ID, t)
	case t.state.prepared() && same:
		refuse(kerr.ConcurrentTransactions)
	case t.state.complete() && same && e.Version < 2:
		if !s.cfg.Broken.Has(AnswerFromCache) {
			s.write(e.ID, t.value)
		}
		s.answer(to, t)
	case !t.state.prepared() && e.Version >= 2 && !e.Commit:
		s.decide(to, e, t, pid) // an abort without partitions
	default:
		refuse(kerr.InvalidTxnState)
	}
}

// repeatedEnd answers a repeated request of version 2. An abort may also find that the transaction
// was fenced in the last epoch: no epoch is left for its producer, so it gets a new id.
func (s *Shard) repeatedEnd(to coordinator.Ticket, e End, t *transaction, pid int64) {
	same := t.state.commits() == e.Commit
	switch {
	case t.state == Empty || t.state == Ongoing:
		s.out.Reply(to, s.refusal(e, kerr.ProducerFenced))
	case !same:
		s.out.Reply(to, s.refusal(e, kerr.InvalidTxnState))
	case t.state.prepared():
		s.out.Reply(to, s.refusal(e, kerr.ConcurrentTransactions))
	case t.epoch > maxEpoch && pid == none:
		s.fetchProducerID(to, e)
	case t.epoch > maxEpoch:
		v := t.value
		v.pid, v.previous, v.epoch = pid, v.pid, 0
		s.emit(e.ID, v)
		t.lastEpoch = none
		s.answer(to, t)
	default:
		s.answer(to, t)
	}
}

// endOngoing ends an open transaction. A commit first waits until the records in topics that
// acknowledge too early are durable, unless it is going to be refused.
func (s *Shard) endOngoing(to coordinator.Ticket, e End, t *transaction, pid int64) {
	if t.live.end != nil {
		s.out.Reply(to, s.refusal(e, kerr.ConcurrentTransactions))
		return
	}
	if s.needsProducerID(e, t) && pid == none {
		s.fetchProducerID(to, e)
		return
	}
	if e.Commit && !s.lossy(t) && s.flush(to, e, t, pid) {
		return
	}
	s.decide(to, e, t, pid)
}

// needsProducerID reports whether the producer gets a new id with the end of its transaction.
func (s *Shard) needsProducerID(e End, t *transaction) bool {
	return e.Version >= 2 && t.epoch >= maxEpoch && !s.cfg.Broken.Has(WrapEpoch|KeepEpoch)
}

// decide ends a transaction and answers its producer. A commit of a transaction that may have lost
// records becomes an abort: it must not stay open, because the producer counts it as aborted as
// soon as it has the answer, and a late copy of the request could come when the topic is deleted.
func (s *Shard) decide(to coordinator.Ticket, e End, t *transaction, pid int64) {
	if !s.needsProducerID(e, t) {
		pid = none
	} else if pid == none {
		s.fetchProducerID(to, e)
		return
	}
	v, reason, refused := t.value, ByClient, e.Commit && s.lossy(t)
	v.version = e.Version
	if v.state != Ongoing {
		v.start = s.now.UnixMilli()
	}
	if refused {
		reason = ByLoss
	}
	s.observeEnd(t, e.Commit && !refused, reason)
	s.prepare(e.ID, t, v, e.Commit && !refused, e.Version >= 2 && !s.cfg.Broken.Has(KeepEpoch), pid)
	if refused {
		s.out.Reply(to, s.refusal(e, kerr.TransactionAbortable))
	} else {
		s.answer(to, t)
	}
}

// prepare records a decision: nothing can change it afterwards. If raises is set, the producer
// loses its epoch. next is the producer id with which it continues, or none.
func (s *Shard) prepare(id string, t *transaction, v value, commit, raises bool, next int64) {
	last := int16(none)
	if raises {
		last, v.epoch, v.next = v.epoch, following(v.epoch), next
	}
	v.state = PrepareAbort
	if commit {
		v.state = PrepareCommit
	}
	s.emit(id, v)
	t.lastEpoch = last
	s.cancelTimer(timerTimeout, id)
	s.sendMarkers(id, t)
}

// fence aborts an open transaction for anyone but its producer, which loses its epoch. The new
// epoch may be the one after maxEpoch: no producer gets it.
func (s *Shard) fence(id string, t *transaction, reason Reason) {
	s.observeEnd(t, false, reason)
	if w := t.live.end; w != nil {
		s.out.Reply(w.to, s.refusal(w.end, kerr.ProducerFenced))
	}
	v := t.value
	if t.doubtful {
		v.epoch = maxEpoch // its partitions may know later epochs than this one
	}
	s.prepare(id, t, v, false, true, none)
	t.doubtful = false
}

// doubted aborts a transaction that is open according to a log that may have lost its end, and
// partitions of it. If it was decided, the partitions that have its marker keep that.
func (s *Shard) doubted(e doubted) {
	if t := s.ids[e.id]; t != nil && t.state == Ongoing && t.live.token == e.token {
		s.fence(e.id, t, ByLoss)
	}
}

// timeOut aborts a transaction that has been open for too long.
func (s *Shard) timeOut(id string, t *transaction) {
	if t.state != Ongoing {
		return
	}
	if s.cfg.Broken.Has(TimeOutSameEpoch) {
		s.prepare(id, t, t.value, false, false, none)
		return
	}
	s.fence(id, t, ByTimeout)
}
