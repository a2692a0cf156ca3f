package service

import (
	"iter"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
)

// groupView shows an image's topics to the shards. It implements group.Topics.
type groupView struct{ img *metadata.Image }

// ByName implements group.Topics.
func (v groupView) ByName(name string) (group.Topic, bool) { return topic(v.img.Topic(name)) }

// ByID implements group.Topics.
func (v groupView) ByID(id [16]byte) (group.Topic, bool) { return topic(v.img.TopicByID(id)) }

func topic(t *metadata.Topic) (group.Topic, bool) {
	if t == nil {
		return group.Topic{}, false
	}
	return group.Topic{ID: t.ID, Name: t.Name, Partitions: t.Partitions.Len(), Internal: t.Internal}, true
}

// Names implements group.Topics.
func (v groupView) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range v.img.Topics() {
			if !yield(t.Name) {
				return
			}
		}
	}
}

// Version implements group.Topics.
func (v groupView) Version() int64 { return v.img.Version() }
