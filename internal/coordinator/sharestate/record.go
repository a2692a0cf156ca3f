package sharestate

import (
	"errors"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
)

// Apply implements coordinator.Machine. A load may begin at any record at or after the last prune:
// updates whose snapshot was deleted are incomplete until the next snapshot follows. Records of
// unknown types and markers, which tools may send, have no meaning here.
func (s *Shard) Apply(r coordinator.Record) error {
	if r.Marker != nil {
		return nil
	}
	t, k, err := format.DecodeKey(r.Key)
	switch {
	case errors.Is(err, format.ErrUnknownType):
		s.foreign = true
		return nil
	case err != nil:
		return err
	case r.Value == nil:
		s.forget(k)
		return nil
	case t == format.TypeSnapshot:
		return s.loadSnapshot(k, r.Value)
	}
	return s.loadUpdate(k, r.Value)
}

func (s *Shard) loadSnapshot(k format.Key, value []byte) error {
	next, err := format.DecodeSnapshot(value)
	if err == nil {
		next.Batches, err = normal(next.Batches)
	}
	if err != nil {
		return fmt.Errorf("share partition %v: %w", k, err)
	}
	s.setSnapshot(k, &next)
	return nil
}

func (s *Shard) loadUpdate(k format.Key, value []byte) error {
	u, err := format.DecodeUpdate(value)
	if err == nil {
		u.Batches, err = normal(u.Batches)
	}
	if err != nil {
		return fmt.Errorf("share partition %v: %w", k, err)
	}
	st := s.states[k]
	if st == nil {
		st = s.add(k)
		st.leader, st.start = -1, -1
		if !s.cfg.Broken.Has(ServeIncomplete) {
			st.incomplete = true
			s.incomplete++
		}
	}
	s.update(st, &u)
	return nil
}

// normal checks the batches of a record. Kafka writes those of a request as they came: they may
// overlap, and the highest mark of an offset counts.
func normal(all []format.Batch) ([]format.Batch, error) {
	inOrder := true
	for i, b := range all {
		if b.First < 0 || b.Last < b.First || b.Last == math.MaxInt64 || b.Count < 0 || !storable(b.State) {
			return nil, fmt.Errorf("offsets %d to %d have state %d and delivery count %d", b.First, b.Last, b.State, b.Count)
		}
		inOrder = inOrder && (i == 0 || b.First > all[i-1].Last)
	}
	if inOrder {
		return all, nil
	}
	return union(all), nil
}

// union returns batches in order, with the highest mark of each offset. It changes their array.
func union(all []format.Batch) []format.Batch {
	if len(all) < 2 {
		return all
	}
	half := len(all) / 2
	return merge(union(all[:half:half]), union(all[half:]), 0, false)
}

// snapshot returns the state as a snapshot, which has the array of its marks.
func (st *state) snapshot() *format.Snapshot {
	return &format.Snapshot{Epoch: st.epoch + 1, StateEpoch: st.id.StateEpoch, Leader: st.leader, Start: st.start,
		Created: st.id.Created, Batches: st.marks, Complete: st.complete, Epochs: st.epochs}
}

// emitSnapshot emits a snapshot and applies it.
func (s *Shard) emitSnapshot(k format.Key, next *format.Snapshot) {
	next.Written = s.now.UnixMilli()
	s.emit(coordinator.Record{Key: k.Encode(format.TypeSnapshot), Value: next.Encode()})
	s.setSnapshot(k, next)
}

// emitUpdate emits an update and applies it.
func (s *Shard) emitUpdate(st *state, u *format.Update) {
	s.emit(coordinator.Record{Key: st.key.Encode(format.TypeUpdate), Value: u.Encode()})
	s.update(st, u)
}

// emitTombstone removes a state.
func (s *Shard) emitTombstone(k format.Key) {
	s.emit(coordinator.Record{Key: k.Encode(format.TypeSnapshot)})
	s.forget(k)
}

// setSnapshot replaces the replicated state of a share partition, both for emitted records and in a
// load. Only it, update and forget change replicated state.
func (s *Shard) setSnapshot(k format.Key, next *format.Snapshot) {
	st := s.states[k]
	if st == nil {
		st = s.add(k)
	}
	if st.incomplete {
		st.incomplete = false
		s.incomplete--
	}
	s.created = max(s.created, next.Created)
	st.id, st.epoch, st.leader, st.start = Identity{next.StateEpoch, next.Created}, next.Epoch, next.Leader, next.Start
	st.marks = merge(nil, next.Batches, next.Start, false)
	st.complete, st.epochs = max(next.Complete, 0), next.Epochs
	st.updates, st.round = 0, s.prune.round
	s.unlink(st)
	s.link(st)
	s.weigh(st)
}

// update applies an update.
func (s *Shard) update(st *state, u *format.Update) {
	st.leader = max(st.leader, u.Leader)
	if u.Start >= 0 {
		st.start = u.Start
	}
	st.marks = merge(st.marks, u.Batches, st.start, s.cfg.Broken.Has(TakeLower))
	if u.Complete >= 0 {
		st.complete = u.Complete
	}
	st.updates++
	s.weigh(st)
}

// add adds a state without values.
func (s *Shard) add(k format.Key) *state {
	st := &state{key: k}
	s.states[k] = st
	s.topics[k.Topic]++
	s.link(st)
	return st
}

// forget removes a state, if there is one.
func (s *Shard) forget(k format.Key) {
	st := s.states[k]
	if st == nil {
		return
	}
	if st.incomplete {
		s.incomplete--
	}
	s.unlink(st)
	s.count(-st.memory)
	delete(s.states, k)
	if s.topics[k.Topic]--; s.topics[k.Topic] == 0 {
		delete(s.topics, k.Topic)
	}
}

// link makes a state the newest one.
func (s *Shard) link(st *state) {
	if st.prev, st.next = s.newest, nil; st.prev == nil {
		s.oldest = st
	} else {
		st.prev.next = st
	}
	s.newest = st
}

func (s *Shard) unlink(st *state) {
	if st.prev == nil {
		s.oldest = st.next
	} else {
		st.prev.next = st.next
	}
	if st.next == nil {
		s.newest = st.prev
	} else {
		st.next.prev = st.prev
	}
}
