package txn

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// Add adds partitions to the transaction of a producer and begins one if none is open: all of them
// or none. The response is an Added. Partitions of groups' offsets are those of __consumer_offsets.
//
// UNKNOWN_TOPIC_OR_PARTITION means that the metadata of this broker has no such partition, perhaps
// not yet. TRANSACTION_ABORTABLE means that the transaction would never have the memory, so its
// producer must end it. A partition that was in the metadata when it was added, and is not later,
// was deleted; this would not follow otherwise, and the partition would never get its marker.
//
// A client of version 1 does not see the coordinator epoch of the answer, and appends to an open
// transaction with the same producer epoch without a further question. That transaction may be
// the one before, decided by another coordinator. So success always takes a record.
type Add struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Version    int16 // of the client's protocol: 1 or 2
	Partitions []AddedPartition
	// Deadline is until when the request waits for the end of the transaction before. Zero: it gets
	// CONCURRENT_TRANSACTIONS.
	Deadline time.Time
}

// AddedPartition is a partition of a topic.
//
// TopicID is the id of the topic whose records shall join the transaction; zero: not known. While
// the metadata of this broker have another topic of the name, or none, the answer is
// UNKNOWN_TOPIC_OR_PARTITION, even for a partition that is in the transaction already: it would be
// taken for a deleted one when these metadata follow, and never get its marker.
type AddedPartition struct {
	Partition
	TopicID [16]byte
}

// Added is the response to Add. A partition must refuse the answer of a coordinator epoch below
// the one that it knows: a coordinator that was replaced may answer from memory.
type Added struct {
	Err              *kerr.Error
	CoordinatorEpoch int32
}

// Verify asks whether partitions are in the open transaction of a producer. The response is a
// Verified.
type Verify struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Partitions []AddedPartition
}

// Verified is the response to Verify: one error for each partition, nil for those that are in the
// transaction. CoordinatorEpoch is that of Added.
type Verified struct {
	Errs             []*kerr.Error
	CoordinatorEpoch int32
}

// check returns why a producer may not use a transactional id, nil if it may.
func (s *Shard) check(t *transaction, pid int64, epoch int16) *kerr.Error {
	if t == nil {
		return kerr.InvalidProducerIDMapping
	}
	now, nowEpoch := t.identity()
	switch {
	case pid == now && epoch == nowEpoch && !t.doubtful:
		return nil
	case pid == now || pid == t.pid:
		return kerr.ProducerFenced
	}
	return kerr.InvalidProducerIDMapping
}

func (s *Shard) add(to coordinator.Ticket, e Add) {
	t := s.ids[e.ID]
	reply := func(err *kerr.Error) { s.out.Reply(to, Added{err, s.epoch}) }
	if err := s.check(t, e.ProducerID, e.Epoch); err != nil {
		reply(err)
		return
	}
	if t.state.prepared() {
		if e.Deadline.After(s.now) {
			s.park(t, e.ID, parked{to, e, e.Deadline})
		} else {
			reply(kerr.ConcurrentTransactions)
		}
		return
	}
	v, begins := t.value, t.state != Ongoing
	if begins {
		v.state, v.start, v.partitions = Ongoing, s.now.UnixMilli(), nil
		v.previous = none // the producer uses its new id; what comes with the one before is late
	}
	var more []Partition
	for _, p := range e.Partitions {
		has := v.has(p.Partition)
		if !s.isCurrent(p) || !has && !s.exists(p.Partition) {
			reply(kerr.UnknownTopicOrPartition)
			return
		}
		if !has {
			more = append(more, p.Partition)
		}
	}
	if len(more) == 0 { // nothing is new
		if e.Version < 2 && !begins && !s.cfg.Broken.Has(AddFromCache) {
			s.write(e.ID, t.value)
		}
		if !begins {
			s.note(t, e.Partitions)
		}
		reply(nil)
		return
	}
	slices.SortFunc(more, comparePartitions)
	more = slices.Compact(more)
	switch budget := s.cfg.OpenMemory; {
	case weight(v.partitions)+weight(more) > budget.ShardSize(): // whichever transactions end
		reply(kerr.TransactionAbortable)
		return
	case !budget.Allows(s.memory, int(weight(more))):
		reply(kerr.CoordinatorLoadInProgress) // all clients back off on this error; transactions end meanwhile
		return
	}
	if begins {
		s.begin(t)
		s.setTimeout(e.ID, t.timeLimit())
	}
	v.version = e.Version
	v.partitions, t.live.added = s.join(v.partitions, t.live, more)
	s.emit(e.ID, v)
	s.note(t, e.Partitions)
	reply(nil)
}

// join returns the partitions of a transaction with more of them, both in order, and what is known
// of each.
func (s *Shard) join(list []Partition, l *live, more []Partition) ([]Partition, []added) {
	all, facts := make([]Partition, 0, len(list)+len(more)), make([]added, 0, len(list)+len(more))
	for i := 0; i < len(list) || len(more) > 0; {
		if len(more) == 0 || i < len(list) && comparePartitions(list[i], more[0]) < 0 {
			all, facts = append(all, list[i]), append(facts, l.of(i))
			i++
			continue
		}
		since, _ := s.topics.Epochs(more[0])
		facts = append(facts, added{s.topics.ID(more[0].Topic), since, s.topics.Weak(more[0].Topic)})
		all, more = append(all, more[0]), more[1:]
	}
	return all, facts
}

// of returns the known state of the partition at an index of the transaction's list.
func (l *live) of(i int) added {
	if l == nil || i >= len(l.added) {
		return added{}
	}
	return l.added[i]
}

// note notes the topics whose records are about to join an open transaction. If one is not the
// topic of the add, or that is not known, any loss of its records counts: a question later than the
// add must not hide one.
func (s *Shard) note(t *transaction, list []AddedPartition) {
	for _, p := range list {
		i, _ := slices.BinarySearchFunc(t.partitions, p.Partition, comparePartitions)
		if was := t.live.of(i); p.TopicID == [16]byte{} || p.TopicID == was.topic {
			continue
		}
		if t.live.added == nil {
			t.live.added = make([]added, len(t.partitions))
		}
		t.live.added[i] = added{topic: p.TopicID, weak: t.live.added[i].weak}
		if s.cfg.Broken.Has(RaiseSince) {
			t.live.added[i].since, _ = s.topics.Epochs(p.Partition)
		}
	}
}

// isCurrent reports whether a partition is of the topic that the metadata has, or does not say.
func (s *Shard) isCurrent(p AddedPartition) bool {
	return p.TopicID == [16]byte{} || s.topics != nil && s.topics.ID(p.Topic) == p.TopicID
}

// exists reports whether a partition can be added.
func (s *Shard) exists(p Partition) bool {
	return s.topics != nil && s.topics.Exists(p) || s.cfg.Broken.Has(AddUnknown)
}

func (s *Shard) verify(e Verify) Verified {
	t := s.ids[e.ID]
	v := Verified{Errs: make([]*kerr.Error, len(e.Partitions)), CoordinatorEpoch: s.epoch}
	err := s.check(t, e.ProducerID, e.Epoch)
	for i, p := range e.Partitions {
		switch v.Errs[i] = err; {
		case err != nil:
		case t.state != Ongoing || !t.has(p.Partition):
			v.Errs[i] = kerr.TransactionAbortable
		case !s.isCurrent(p):
			v.Errs[i] = kerr.UnknownTopicOrPartition
		default: // the records of this topic will join
			s.note(t, e.Partitions[i:i+1])
		}
	}
	return v
}
