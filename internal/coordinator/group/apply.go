package group

import (
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// value is a record's value.
type value interface{ Encode() []byte }

// Apply is coordinator.Machine. Records of types that this version doesn't know, as
// of share groups, are passed over: Kafka does so too, after a downgrade.
func (s *Shard) Apply(r coordinator.Record) error {
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
	s.apply(k, v)
	s.finishEvent(k.Group)
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
	}
	return nil, nil // TypeTopics: read past
}

// apply changes the state by one record. It is the only place where replicated state
// changes, live and at load. v is nil for a tombstone; one of something that isn't
// there changes nothing, since compaction may have taken away what it removed.
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
		if g.offsets == nil {
			g.offsets = map[string]map[int32]format.Offset{}
		}
		if g.offsets[k.Item] == nil {
			g.offsets[k.Item] = map[int32]format.Offset{}
		}
		g.offsets[k.Item][k.Partition] = v
	case format.ClassicGroup:
		if g.classic() == nil {
			g.kind = newClassic()
		}
		g.classic().apply(v)
	default:
		// Compaction leaves a group's records in any order, so each may be the first.
		if g.consumer() == nil {
			g.kind = newConsumer()
		}
		g.consumer().apply(k.Item, v)
	}
}

func (s *Shard) applyTombstone(g *group, k format.Key) {
	switch k.Type {
	case format.TypeOffset:
		delete(g.offsets[k.Item], k.Partition)
		if len(g.offsets[k.Item]) == 0 {
			delete(g.offsets, k.Item)
		}
	case format.TypeClassicGroup:
		if g.classic() != nil {
			g.kind = newClassic()
		}
	case format.TypeGroup:
		if g.consumer() != nil {
			g.kind = newClassic()
		}
	default:
		if c := g.consumer(); c != nil {
			c.applyTombstone(k)
		}
	}
}
