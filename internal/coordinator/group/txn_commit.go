package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// TxnCommit is a TxnOffsetCommit. The response is a *kmsg.TxnOffsetCommitResponse, or a NeedsPermit
// if the offsets would begin a transaction of the producer in the shard.
type TxnCommit struct {
	// Body has the names and the ids of topics, whatever its version.
	Body   *kmsg.TxnOffsetCommitRequest
	Permit Permit
}

// Permit says that the transaction's coordinator knows of the transaction, and will send its
// marker. The zero value is no permit.
type Permit struct {
	Guard            Guard
	CoordinatorEpoch int32
}

// NeedsPermit tells the caller of a TxnCommit to ask the transaction's coordinator for the shard's
// partition, and then to submit the event again with a Permit of this Guard. If a marker arrives
// meanwhile, the response is a NeedsPermit again, or an error after which clients retry.
type NeedsPermit struct{ Guard Guard }

// commitPending answers a TxnCommit. Everything is checked again in the event that brings the
// permit: meanwhile the group may have begun another generation.
func (s *Shard) commitPending(to coordinator.Ticket, e TxnCommit) {
	req := e.Body
	resp := TxnRefused(req, 0)
	allowed, f := s.checkTxnCommit(e)
	if f != nil {
		s.out.Reply(to, TxnRefused(req, f.errorCode()))
		return
	}
	type spot struct{ topic, partition int }
	var write []spot
	for i := range req.Topics {
		for n := range req.Topics[i].Partitions {
			p, result := &req.Topics[i].Partitions[n], &resp.Topics[i].Partitions[n]
			if len(deref(p.Metadata)) > s.cfg.MaxMetadata {
				result.ErrorCode = kerr.OffsetMetadataTooLarge.Code
			} else if f := allowed.check(req.Topics[i].TopicID, p.Partition); f != nil {
				result.ErrorCode = f.errorCode()
			} else {
				write = append(write, spot{i, n})
			}
		}
	}
	if len(write) > 0 {
		begins, f := s.checkProducer(e)
		switch {
		case f != nil:
			s.out.Reply(to, TxnRefused(req, f.errorCode()))
			return
		case s.outlived(e):
			s.out.Reply(to, TxnRefused(req, kerr.CoordinatorLoadInProgress.Code))
			return
		case begins && !s.permits(e):
			s.out.Reply(to, NeedsPermit{s.transactions.guard()})
			return
		}
	}
	by := coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch, Transactional: true}
	for _, x := range write {
		t, p := &req.Topics[x.topic], &req.Topics[x.topic].Partitions[x.partition]
		k := format.Key{Type: format.TypeOffset, Group: req.Group, Item: t.Topic, Partition: p.Partition}
		o := format.Offset{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: deref(p.Metadata), Committed: s.nowMillis(),
			Expires: -1, Topic: t.TopicID}
		s.applyPending(k, o, by)
		s.out.Emit(coordinator.Record{Key: k.Encode(), Value: o.Encode(), Producer: by})
	}
	s.out.Reply(to, resp)
}

// checkTxnCommit is checkCommit for a transaction. A consumer that uses no group management, or a
// client that does not know the generation (before version 3), commits without a check.
func (s *Shard) checkTxnCommit(e TxnCommit) (partitionCheck, *failure) {
	req := e.Body
	c := s.newCommit(req.Group, true)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			c.add(req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition, deref(req.Topics[i].Partitions[j].Metadata))
		}
	}
	if req.Group == "" {
		return nil, refuse(kerr.InvalidGroupID)
	}
	if f := s.checkCommitSize(c); f != nil {
		return nil, f
	}
	return s.checkCommit(committer{group: req.Group, member: req.MemberID, instance: req.InstanceID, generation: req.Generation,
		transactional: true, knowsEpochs: req.Version >= 6})
}

// checkProducer reports whether offsets would begin a transaction of their producer, or why they
// are refused.
func (s *Shard) checkProducer(e TxnCommit) (begins bool, f *failure) {
	req, t := e.Body, &s.transactions
	fence := t.fence(req.ProducerID)
	if s.cfg.Broken.Has(AnyEpoch) {
		fence.Epoch = min(fence.Epoch, req.ProducerEpoch)
	}
	joins, err := fence.Joins(req.ProducerID, req.ProducerEpoch)
	switch {
	case errors.Is(err, producers.ErrInvalidProducerEpoch):
		return false, refuse(kerr.InvalidProducerEpoch)
	case err != nil && e.Permit == Permit{}:
		return true, nil // a later epoch than that of the open transaction: the coordinator knows it, or refuses it
	case err != nil:
		return false, refuse(kerr.CoordinatorLoadInProgress) // the marker of the open transaction is missing still
	case !joins && t.open >= producers.MaxOpen:
		return false, refuse(kerr.CoordinatorLoadInProgress) // clients retry; transactions end meanwhile
	}
	return !joins, nil
}

// outlived reports whether a marker came while a TxnCommit before version 5 waited for its permit.
// The marker has ended the transaction that it belongs to. The producer has the same epoch in the
// next one, so the offsets would become part of that, and the coordinator could not tell. A
// producer that still waits sends them again. From version 5 on, the epoch names the transaction.
func (s *Shard) outlived(e TxnCommit) bool {
	return e.Body.Version < 5 && e.Permit.Guard.life != nil && !s.transactions.holds(e.Body.ProducerID, e.Permit.Guard) &&
		!s.cfg.Broken.Has(AskAgain)
}

// permits reports whether a TxnCommit has a permit to begin a transaction.
func (s *Shard) permits(e TxnCommit) bool {
	id, t := e.Body.ProducerID, &s.transactions
	asked := e.Permit.Guard.life != nil || s.cfg.Broken.Has(NeverAsk)
	guarded := t.holds(id, e.Permit.Guard) || s.cfg.Broken.Has(KeepGuards|NeverAsk)
	current := t.fence(id).CheckPermit(id, e.Permit.CoordinatorEpoch) == nil || s.cfg.Broken.Has(AnyPermit|NeverAsk)
	return asked && guarded && current
}

// TxnRefused returns a response with the same code for every partition.
func TxnRefused(req *kmsg.TxnOffsetCommitRequest, code int16) *kmsg.TxnOffsetCommitResponse {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	resp.Version = req.Version
	for _, t := range req.Topics {
		r := kmsg.NewTxnOffsetCommitResponseTopic()
		r.Topic, r.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			q := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			q.Partition, q.ErrorCode = p.Partition, code
			r.Partitions = append(r.Partitions, q)
		}
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}
