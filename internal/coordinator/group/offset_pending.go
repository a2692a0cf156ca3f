package group

import (
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// pendingOffset is an offset of a transaction that is open. The transaction's marker makes it the
// committed one, or discards it. It belongs to the group's id, whatever the group's kind.
//
// While an offset is pending, the group and the committed offset do not expire and can't be
// deleted: the marker would otherwise undo the deletion, or a successful commit bring no offset.
type pendingOffset struct {
	format.Offset
	producer int64
	order    uint64 // see transactions.writes
	// late: the committed offset was written later than this one, so a commit does not replace it.
	late bool
}

// partitions has a value for partitions of topics.
type partitions[V any] map[string]map[int32]V

func (m *partitions[V]) set(topic string, partition int32, v V) {
	if *m == nil {
		*m = partitions[V]{}
	}
	if (*m)[topic] == nil {
		(*m)[topic] = map[int32]V{}
	}
	(*m)[topic][partition] = v
}

func (m partitions[V]) delete(topic string, partition int32) {
	delete(m[topic], partition)
	if len(m[topic]) == 0 {
		delete(m, topic)
	}
}

// setOffset sets the committed offset of a partition. order is when it was written.
func (g *group) setOffset(topic string, partition int32, o format.Offset, order uint64) {
	if old, replaced := g.offsets[topic][partition]; replaced {
		g.kept -= offsetWeight + len(old.Metadata)
	} else if len(g.offsets[topic]) == 0 {
		g.kept += topicWeight + len(topic)
	}
	g.kept += offsetWeight + len(o.Metadata)
	g.offsets.set(topic, partition, o)
	for i := range g.pending[topic][partition] {
		if x := &g.pending[topic][partition][i]; x.order < order {
			x.late = true
		}
	}
}

// dropOffset removes the committed offset of a partition, and the pending ones, which were written
// earlier; see dropDeleted.
func (g *group) dropOffset(topic string, partition int32) {
	if old, ok := g.offsets[topic][partition]; ok {
		g.kept -= offsetWeight + len(old.Metadata)
		if g.offsets.delete(topic, partition); len(g.offsets[topic]) == 0 {
			g.kept -= topicWeight + len(topic)
		}
	}
	for _, x := range g.pending[topic][partition] {
		g.kept -= x.weight(topic)
	}
	g.pending.delete(topic, partition)
}

// weight returns the memory of a pending offset of a topic.
func (x *pendingOffset) weight(topic string) int { return offsetWeight + len(topic) + len(x.Metadata) }

// applyPending applies a pending offset.
func (s *Shard) applyPending(k format.Key, o format.Offset, by coordinator.Producer) {
	g, t := s.group(k.Group), &s.transactions
	p := t.begin(by.ID, by.Epoch, s.nowMillis())
	t.writes++
	x := pendingOffset{Offset: o, producer: by.ID, order: t.writes}
	all := g.pending[k.Item][k.Partition]
	defer s.weigh(g)
	g.kept += x.weight(k.Item)
	if i := pendingOf(all, by.ID); i >= 0 {
		g.kept -= all[i].weight(k.Item)
		all[i] = x
		return
	}
	g.pending.set(k.Item, k.Partition, append(all, x))
	p.pending = append(p.pending, pendingKey{k.Group, k.Item, k.Partition})
}

// pendingOf returns the index of a producer's offset, -1 if it has none.
func pendingOf(all []pendingOffset, producer int64) int {
	return slices.IndexFunc(all, func(x pendingOffset) bool { return x.producer == producer })
}

// takePending removes a producer's pending offset and returns it.
func (g *group) takePending(topic string, partition int32, producer int64) (pendingOffset, bool) {
	all := g.pending[topic][partition]
	i := pendingOf(all, producer)
	if i < 0 {
		return pendingOffset{}, false
	}
	x := all[i]
	g.kept -= x.weight(topic)
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		g.pending.delete(topic, partition)
	} else {
		g.pending[topic][partition] = all
	}
	return x, true
}

// applyMarker ends the transaction of a producer.
func (s *Shard) applyMarker(m producers.Marker) {
	if s.cfg.Broken.Has(ForgetMarkers) && s.transactions.ids[m.Producer] == nil {
		return
	}
	p := s.transactions.end(m, s.nowMillis())
	places := p.pending
	p.pending = nil
	for _, at := range places {
		g := s.groups[at.group]
		if g == nil {
			continue
		}
		x, ok := g.takePending(at.topic, at.partition, p.id)
		if ok && m.Kind == record.Commit && (!x.late || s.cfg.Broken.Has(OverwriteNewer)) {
			g.setOffset(at.topic, at.partition, x.Offset, x.order)
		}
		s.finishEvent(at.group)
	}
}

// loadMarker applies a marker from the log.
func (s *Shard) loadMarker(r coordinator.Record) error {
	m := producers.Marker{Producer: r.Producer.ID, Epoch: r.Producer.Epoch, Kind: record.Abort, Coordinator: r.Marker.CoordinatorEpoch}
	switch {
	case r.Marker.Emptied:
		m.Kind = record.NoControl
		if p := s.transactions.ids[m.Producer]; p != nil && p.Open {
			return fmt.Errorf("the marker of producer %d is empty, but offsets of its transaction are in the log", m.Producer)
		}
	case r.Marker.Commit:
		m.Kind = record.Commit
	}
	s.applyMarker(m)
	return nil
}

// unstable reports whether an offset is pending for a partition. Offsets of a deleted topic do not
// count for a new topic with the same name.
func (s *Shard) unstable(g *group, topic string, partition int32) bool {
	return g != nil && slices.ContainsFunc(g.pending[topic][partition], func(x pendingOffset) bool { return s.shown(topic, x.Offset) })
}

// hasPending reports whether a group must stay because an offset is pending.
func (s *Shard) hasPending(g *group) bool {
	return len(g.pending) > 0 && !s.cfg.Broken.Has(DeletePending)
}

// isPending reports whether a committed offset must stay because another one is pending.
func (s *Shard) isPending(g *group, topic string, partition int32) bool {
	return len(g.pending[topic][partition]) > 0 && !s.cfg.Broken.Has(DeletePending)
}

// Marker is the end of a producer's transaction. The response is a Marked, after the marker and its
// effect on offsets are committed.
type Marker struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	Commit           bool
	Bumps, Foreign   bool // see producers.Sender
}

// EndsTransaction implements coordinator.Ending.
func (Marker) EndsTransaction() {}

// Marked is the response to a Marker. Err is nil also for the repetition of a marker. Otherwise it
// matches producers.ErrInvalidProducerEpoch, ErrCoordinatorFenced or ErrForeignMarker.
type Marked struct{ Err error }

// mark judges a marker, applies it and emits its record.
func (s *Shard) mark(e Marker) error {
	m := producers.Marker{Producer: e.ProducerID, Epoch: e.Epoch, Kind: record.Abort, Coordinator: e.CoordinatorEpoch}
	if e.Commit {
		m.Kind = record.Commit
	}
	f := s.transactions.fence(m.Producer)
	if s.cfg.Broken.Has(AnyCoordinator) {
		f.Coordinator = min(f.Coordinator, m.Coordinator)
	}
	if repeats, err := f.CheckMarker(m, producers.Sender{Bumps: e.Bumps, Foreign: e.Foreign}); repeats || err != nil {
		return err
	}
	s.applyMarker(m)
	s.out.Emit(coordinator.Record{Producer: coordinator.Producer{ID: m.Producer, Epoch: m.Epoch, Transactional: true},
		Marker: &coordinator.Marker{Commit: e.Commit, CoordinatorEpoch: m.Coordinator}})
	return nil
}
