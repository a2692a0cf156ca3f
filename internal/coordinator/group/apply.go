package group

import (
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// value is the value of a record.
type value interface{ Encode() []byte }

// Apply implements coordinator.Machine. It skips records of unknown types, as Kafka does after a
// downgrade.
func (s *Shard) Apply(r coordinator.Record) error {
	if r.Marker != nil {
		return s.loadMarker(r)
	}
	k, err := format.DecodeKey(r.Key)
	switch {
	case errors.Is(err, format.ErrUnknownType):
		return nil
	case err != nil:
		return err
	}
	var v value
	if r.Value != nil {
		if v, err = decode(k.Type, r.Value); err != nil {
			return fmt.Errorf("group %q: %w", k.Group, err)
		}
	}
	if r.Rise > 0 {
		if v, err = s.restored(v, r.Rise); err != nil {
			return fmt.Errorf("group %q: %w", k.Group, err)
		}
		if v == nil && r.Value != nil {
			return nil
		}
	}
	if r.Producer.Transactional {
		o, ok := v.(format.Offset)
		if !ok {
			return fmt.Errorf("group %q: a transaction of producer %d has a record that is not an offset", k.Group, r.Producer.ID)
		}
		s.applyPending(k, o, r.Producer)
	} else {
		s.apply(k, v)
	}
	if g := s.groups[k.Group]; g != nil && r.Rise > 0 {
		g.restored = true
	}
	if !r.Producer.Transactional {
		s.finishEvent(k.Group)
	}
	return nil
}

func decode(t format.Type, p []byte) (value, error) {
	switch t {
	case format.TypeOffset:
		return format.DecodeOffset(p)
	case format.TypeClassicGroup:
		return format.DecodeClassic(p)
	case format.TypeGroup:
		return format.DecodeGroup(p)
	case format.TypeMember:
		return format.DecodeMember(p)
	case format.TypeTargetEpoch:
		return format.DecodeTargetEpoch(p)
	case format.TypeTarget:
		return format.DecodeTarget(p)
	case format.TypeCurrent:
		return format.DecodeCurrent(p)
	case format.TypeRegex:
		return format.DecodeRegex(p)
	case format.TypeShareMember:
		return format.DecodeShareMember(p)
	case format.TypeShare:
		return format.DecodeShare(p)
	case format.TypeShareEpoch:
		return format.DecodeTargetEpoch(p)
	case format.TypeShareTarget:
		return format.DecodeTarget(p)
	case format.TypeShareCurrent:
		return format.DecodeShareCurrent(p)
	case format.TypeShareStates:
		return format.DecodeShareStates(p)
	case format.TypeStreams:
		return format.DecodeStreams(p)
	case format.TypeTopology:
		return format.DecodeTopology(p)
	case format.TypeStreamsMember:
		return format.DecodeStreamsMember(p)
	case format.TypeStreamsEpoch:
		return format.DecodeTargetEpoch(p)
	case format.TypeStreamsTarget:
		return format.DecodeStreamsTarget(p)
	case format.TypeStreamsCurrent:
		return format.DecodeStreamsCurrent(p)
	}
	return nil, nil // TypeTopics, TypeStreamsTopics: ignored
}

// apply changes the state by one record outside of transactions. It, applyPending and applyMarker
// are the only places that change replicated state, both for emitted records and during a load. v
// is nil for a tombstone. A tombstone for something unknown changes nothing, because compaction may
// have removed the record that it deletes.
func (s *Shard) apply(k format.Key, v value) {
	if v == nil {
		if g := s.groups[k.Group]; g != nil {
			s.applyTombstone(g, k)
		}
		return
	}
	g := s.group(k.Group)
	switch v := v.(type) {
	case format.Offset:
		s.transactions.writes++
		g.setOffset(k.Item, k.Partition, v, s.transactions.writes)
	case format.ClassicGroup:
		if g.classic() == nil {
			g.kind = newClassic()
		}
		g.classic().apply(v, s.cfg.Broken)
	default:
		// After compaction a group's records may be in any order, so each may be the first.
		if k.Type.Streams() {
			if g.streams() == nil {
				g.kind = newStreams()
			}
			g.streams().apply(k.Item, v)
			return
		}
		if k.Type.Share() {
			if g.share() == nil {
				g.kind = newShare()
			}
			g.share().apply(k.Item, v)
			return
		}
		if g.consumer() == nil {
			g.kind = newConsumer()
		}
		g.consumer().apply(k.Item, v)
	}
}

func (s *Shard) applyTombstone(g *group, k format.Key) {
	switch k.Type {
	case format.TypeOffset:
		g.dropOffset(k.Item, k.Partition)
	case format.TypeClassicGroup:
		if g.classic() != nil {
			g.kind = newClassic()
		}
	case format.TypeGroup:
		if g.consumer() != nil {
			g.kind = newClassic()
		}
	case format.TypeStreams:
		if g.streams() != nil {
			g.kind = newClassic()
		}
	case format.TypeShare:
		if g.share() != nil {
			g.kind = newClassic()
		}
	default:
		if c := g.streams(); c != nil && k.Type.Streams() {
			c.applyTombstone(k)
		}
		if c := g.share(); c != nil && k.Type.Share() {
			c.applyTombstone(k)
		}
		if c := g.consumer(); c != nil && !k.Type.Streams() && !k.Type.Share() {
			c.applyTombstone(k)
		}
	}
}
