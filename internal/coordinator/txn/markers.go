package txn

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/pause"
)

// WriteMarker asks for the marker of a decided transaction in one partition. The result is a
// Marked, exactly one. The sender gives success when the marker is durable on every in-sync
// replica, whatever the topic's profile. While an earlier marker of the same producer and partition
// has no result, also one of a former machine of this broker, the sender must hold it back.
type WriteMarker struct {
	ID               string
	Token            uint64
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	Commit           bool
	Version          int16 // of the client's protocol: from 2 on, the epoch is above that of the records
	Partition        Partition
}

// Marked is the result of a WriteMarker. Err is nil for success; the Shard repeats every other one.
type Marked struct {
	WriteMarker
	Err *kerr.Error
}

// Flush asks the leader of a partition to make all records that it has of a producer's transaction
// durable on every in-sync replica. The result is a Flushed, exactly one.
type Flush struct {
	ID         string
	Token      uint64
	ProducerID int64
	Epoch      int16
	// LeaderEpoch is that of the metadata of the Shard. The leader must refuse the request in any
	// other one: it would make durable the rest after a loss that the Shard can't see yet.
	LeaderEpoch int32
	Partition   Partition
}

// Flushed is the result of a Flush. Err is nil for success; the Shard repeats every other one.
type Flushed struct {
	Flush
	Err *kerr.Error
}

// Bounds of the pause before a request to a partition is repeated.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

var backoff = pause.Backoff{First: firstPause, Most: mostPause}

// sendMarkers sends the markers of a decided transaction.
func (s *Shard) sendMarkers(id string, t *transaction) {
	missing := make(map[Partition]*attempt, len(t.partitions))
	for i, p := range t.partitions {
		if s.topics == nil {
			missing[p] = &attempt{}
		} else if s.remains(p, t.live.of(i).topic) {
			missing[p] = &attempt{topic: s.topics.ID(p.Topic)}
		}
	}
	s.begin(t)
	s.asking[id] = t
	s.cancelTimer(timerRetry, id)
	t.live.missing = missing
	for _, p := range t.partitions {
		if a := t.live.missing[p]; a != nil {
			s.sendMarker(id, t, p, a)
		}
	}
	if s.cfg.Broken.Has(CompleteEarly) {
		clear(t.live.missing)
	}
	s.checkDone(id, t)
}

func (s *Shard) sendMarker(id string, t *transaction, p Partition, a *attempt) {
	a.out, a.at = true, time.Time{}
	m := WriteMarker{ID: id, Token: t.live.token, ProducerID: t.pid, Epoch: t.epoch, CoordinatorEpoch: s.epoch,
		Commit: t.state == PrepareCommit, Version: max(t.version, 1), Partition: p}
	if a.ahead {
		m.Epoch, m.Commit = maxEpoch+1, false
	}
	s.out.Send(m)
	if s.cfg.Broken.Has(RepeatMarkers) {
		s.retryAt(id, t, s.now.Add(firstPause))
	}
}

// marked handles the result of a marker.
func (s *Shard) marked(e Marked) {
	t := s.ids[e.ID]
	if t == nil || t.live == nil || !t.state.prepared() {
		return
	}
	if t.live.token != e.Token && !s.cfg.Broken.Has(CountAnyAnswer) {
		return
	}
	a := t.live.missing[e.Partition]
	switch {
	case a == nil:
	case e.Err == nil, e.Err == kerr.UnknownTopicOrPartition && s.cfg.Broken.Has(UnknownIsDone):
		delete(t.live.missing, e.Partition)
		s.checkDone(e.ID, t)
	case a.deleted:
		delete(t.live.missing, e.Partition)
		s.checkDone(e.ID, t)
	default:
		if s.cfg.Refused != nil {
			s.cfg.Refused(e.Err)
		}
		s.overtaken(e, t, a)
		s.failed(e.ID, t, a, e.Err)
	}
}

// overtaken handles a partition that knows a later epoch of the producer than the coordinator:
// later records of __transaction_state were lost, or an older copy of it was restored. No
// transaction of this epoch is open in the partition, and the outcome of a later one is unknown. So
// the partition gets an abort marker with the last of all epochs. The producer id is not used
// again, as its later epochs may be taken.
//
// A coordinator that was deposed does not come here: the markers of its successor are in all
// partitions of the transaction before the producer gets a later epoch, and they fence it.
func (s *Shard) overtaken(e Marked, t *transaction, a *attempt) {
	if e.Err != kerr.InvalidProducerEpoch || a.ahead {
		return
	}
	a.ahead, t.live.overtaken = true, true
	if s.cfg.Overtaken != nil {
		s.cfg.Overtaken(e.ID, e.Partition)
	}
}

// failed lets a request be repeated after a pause.
func (s *Shard) failed(id string, t *transaction, a *attempt, err *kerr.Error) {
	a.out, a.lastFail = false, err
	a.failures++
	a.at = s.now.Add(backoff.After(a.failures))
	s.retryAt(id, t, a.at)
}

// retryAt sets the timer for repetitions, unless it fires earlier.
func (s *Shard) retryAt(id string, t *transaction, at time.Time) {
	if l := t.live; l.retryAt.IsZero() || at.Before(l.retryAt) {
		l.retryAt = at
		s.out.Set(coordinator.TimerKey{Kind: timerRetry, Owner: id}, at)
	}
}

// retry repeats the requests of a transaction whose pause is over.
func (s *Shard) retry(id string, t *transaction) {
	if t.live == nil {
		return
	}
	t.live.retryAt = time.Time{}
	for _, p := range t.partitions {
		a := t.live.missing[p]
		switch {
		case a == nil:
		case a.out && !s.cfg.Broken.Has(RepeatMarkers):
		case a.at.After(s.now):
			s.retryAt(id, t, a.at)
		default:
			s.resend(id, t, p, a)
		}
	}
}

func (s *Shard) resend(id string, t *transaction, p Partition, a *attempt) {
	if t.state == Ongoing {
		s.sendFlush(id, t, p, a)
	} else {
		s.sendMarker(id, t, p, a)
	}
}

// checkDone lets the transaction continue if no partition is missing. The event that brings the
// last one can't be refused, so it is a deferred event that writes.
func (s *Shard) checkDone(id string, t *transaction) {
	switch {
	case len(t.live.missing) > 0:
	case t.state == Ongoing:
		s.out.Defer(flushed{id, t.live.token})
	default:
		s.out.Defer(complete{id, t.live.token})
	}
}

// complete ends a transaction whose markers are all durable.
func (s *Shard) complete(e complete) {
	t := s.ids[e.id]
	if t == nil || t.live == nil || t.live.token != e.token || !t.state.prepared() {
		return
	}
	if observe := s.cfg.Marked; observe != nil {
		observe(t.state.commits(), max(0, s.now.Sub(time.UnixMilli(t.update))))
	}
	v := t.value
	v.state += CompleteCommit - PrepareCommit
	v.partitions = nil
	if t.live.overtaken || t.doubtful {
		v.epoch, v.next, t.doubtful = maxEpoch+1, none, false // the next producer gets an id that is not used yet
	}
	if v.next != none {
		v.pid, v.previous, v.next, v.epoch = v.next, v.pid, none, 0
		t.lastEpoch = none // previous says the same, and is stored
	}
	s.emit(e.id, v)
	s.cancelTimer(timerRetry, e.id)
	t.live = nil
	delete(s.asking, e.id)
	s.unpark(e.id, t)
}

// flush asks for the flushes that a commit needs and reports whether there are any.
func (s *Shard) flush(to coordinator.Ticket, e End, t *transaction, pid int64) bool {
	if s.cfg.Broken.Has(SkipFlush) {
		return false
	}
	missing := map[Partition]*attempt{}
	for i, p := range t.partitions {
		was := t.live.of(i)
		if (was.weak || s.topics.Weak(p.Topic)) && s.remains(p, was.topic) {
			missing[p] = &attempt{topic: was.topic}
		}
	}
	if len(missing) == 0 {
		return false
	}
	s.tokens++
	t.live.token, t.live.missing, t.live.end = s.tokens, missing, &waitingEnd{to, e, pid}
	s.asking[e.ID] = t
	for _, p := range t.partitions {
		if a := missing[p]; a != nil {
			s.sendFlush(e.ID, t, p, a)
		}
	}
	return true
}

func (s *Shard) sendFlush(id string, t *transaction, p Partition, a *attempt) {
	a.out, a.at = true, time.Time{}
	leader, _ := s.topics.Epochs(p)
	s.out.Send(Flush{ID: id, Token: t.live.token, ProducerID: t.pid, Epoch: t.epoch, LeaderEpoch: leader, Partition: p})
}

// flushAnswered handles the result of a flush.
func (s *Shard) flushAnswered(e Flushed) {
	t := s.ids[e.ID]
	if s.cfg.Broken.Has(KeepFlush) && t != nil && t.state == Ongoing && e.Err == nil && t.live.token != e.Token {
		s.prepare(e.ID, t, t.value, true, t.version >= 2, none)
		return
	}
	if t == nil || t.live == nil || t.live.token != e.Token || t.live.end == nil {
		return
	}
	a := t.live.missing[e.Partition]
	switch {
	case a == nil:
	case e.Err != nil:
		s.failed(e.ID, t, a, e.Err)
	default:
		delete(t.live.missing, e.Partition)
		s.checkDone(e.ID, t)
	}
}

// flushed decides about a transaction whose records are all durable, as far as they are there.
func (s *Shard) flushed(e flushed) {
	t := s.ids[e.id]
	if t == nil || t.live == nil || t.live.token != e.token || t.live.end == nil {
		return
	}
	w := t.live.end
	s.decide(w.to, w.end, t, w.next)
}

// lossy reports whether a partition of an open transaction may have lost records since it was
// added, which may have been acknowledged. The metadata says so before a leader serves the rest.
func (s *Shard) lossy(t *transaction) bool {
	for i, p := range t.partitions {
		was := t.live.of(i)
		leader, lossy := s.topics.Epochs(p)
		if was == (added{}) && s.cfg.Broken.Has(TrustLoad) {
			was.since = leader
		}
		if lossy > was.since && s.remains(p, was.topic) {
			return !s.cfg.Broken.Has(IgnoreLoss)
		}
	}
	return false
}

// remains reports whether the metadata has a partition, and still of the topic with an id; zero:
// of any topic of that name.
//
// This metadata is never older than that of the leader that asked for the partition: an Add and a
// Verify of another id are refused, and a new coordinator's metadata has what the one before has
// seen. So another id is that of a later topic, which needs no marker.
func (s *Shard) remains(p Partition, topic [16]byte) bool {
	return s.topics.Exists(p) && (topic == [16]byte{} || s.topics.ID(p.Topic) == topic)
}

// topicsChanged applies new metadata: partitions of a deleted topic leave their transactions, and
// partitions that may have a new leader are asked at once. A marker on the way has a result first:
// without an epoch for each transaction it would end the next one if the topic was created again.
func (s *Shard) topicsChanged(e TopicsChanged) {
	s.topics, s.tagged = e.Topics, e.Tagged
	for _, id := range slices.Sorted(maps.Keys(s.asking)) {
		t := s.asking[id]
		before := len(t.live.missing)
		for _, p := range t.partitions {
			a := t.live.missing[p]
			switch {
			case a == nil:
			case !s.remains(p, a.topic) && a.out && t.state.prepared():
				a.deleted = true
			case !s.remains(p, a.topic):
				delete(t.live.missing, p)
			case !a.out && slices.Contains(e.Changed, p.Topic):
				s.resend(id, t, p, a)
			}
		}
		if before > 0 {
			s.checkDone(id, t)
		}
	}
}
