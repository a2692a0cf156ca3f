package group

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"slices"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// Topic is what the coordinator knows of a topic.
type Topic struct {
	ID         assign.TopicID
	Name       string
	Partitions int32
}

// Topics is the cluster's topics at one moment. It never changes.
type Topics interface {
	ByName(name string) (Topic, bool)
	ByID(id assign.TopicID) (Topic, bool)
	// Names walks the names of all topics, in any order.
	Names() iter.Seq[string]
	// Version grows with every change.
	Version() int64
}

// noTopics is what a shard knows before it is told. Nothing is assigned as long as it
// knows no more: it would take everything from everybody.
type noTopics struct{}

// blind: the shard has not been told of topics yet.
func (s *Shard) blind() bool {
	_, blind := s.topics.(noTopics)
	return blind
}

func (noTopics) ByName(string) (Topic, bool)       { return Topic{}, false }
func (noTopics) ByID(assign.TopicID) (Topic, bool) { return Topic{}, false }
func (noTopics) Names() iter.Seq[string]           { return func(func(string) bool) {} }
func (noTopics) Version() int64                    { return 0 }

// hashTopics is a hash of the topics of those names that exist: it changes when one
// comes, goes, is made anew or grows. 0 is none.
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
