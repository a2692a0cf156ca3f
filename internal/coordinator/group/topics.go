package group

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"slices"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// Topic describes a topic to the coordinator.
type Topic struct {
	ID         assign.TopicID
	Name       string
	Partitions int32
	// Internal topics have no states of share groups.
	Internal bool
}

// Topics is a snapshot of the cluster's topics. It never changes.
type Topics interface {
	ByName(name string) (Topic, bool)
	ByID(id assign.TopicID) (Topic, bool)
	// Names iterates over the names of all topics, in any order.
	Names() iter.Seq[string]
	// Version grows with every change.
	Version() int64
}

// noTopics is a shard's view before the first TopicsChanged. Until then nothing is assigned: every
// topic seems to be missing, and all members would lose their partitions.
type noTopics struct{}

// topicsUnknown reports whether the shard has not received its first TopicsChanged yet.
func (s *Shard) topicsUnknown() bool {
	_, unknown := s.topics.(noTopics)
	return unknown
}

func (noTopics) ByName(string) (Topic, bool)       { return Topic{}, false }
func (noTopics) ByID(assign.TopicID) (Topic, bool) { return Topic{}, false }
func (noTopics) Names() iter.Seq[string]           { return func(func(string) bool) {} }
func (noTopics) Version() int64                    { return 0 }

// hashTopics returns a hash of the existing topics among names: it changes when a topic is created,
// deleted, created again, or grows. 0 if none exists.
func hashTopics(topics Topics, names map[string]struct{}) int64 {
	list := make([]string, 0, len(names))
	for n := range names {
		list = append(list, n)
	}
	slices.Sort(list)
	h, found := fnv.New64a(), false
	for _, n := range list {
		t, ok := topics.ByName(n)
		if !ok {
			continue
		}
		found = true
		_, _ = h.Write(t.ID[:])
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(t.Partitions)))
		_, _ = h.Write([]byte(n))
	}
	if !found {
		return 0
	}
	return int64(h.Sum64() | 1)
}
