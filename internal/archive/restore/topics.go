package restore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/text"
)

// lacksError says that a snapshot lacks topics that were chosen.
type lacksError struct {
	snapshot int64
	topics   []string
	has      []string // its topics, in the order of their names
}

func (e *lacksError) Error() string {
	return fmt.Sprintf("snapshot %d has no topic %s", e.snapshot, strings.Join(e.topics, ", "))
}

// lack describes the snapshots, the newest first, that lack topics.
func lack(list []*lacksError) error {
	newest, oldest := list[0], list[len(list)-1]
	if len(list) == 1 {
		return newest
	}
	return fmt.Errorf("%d snapshots from %d to %d have no topic %s", len(list), oldest.snapshot, newest.snapshot,
		strings.Join(newest.topics, ", "))
}

// instead says what to choose instead of topics that snapshots lack.
func instead(list []*lacksError) string {
	const shown = 20
	for _, e := range list {
		for _, name := range e.topics {
			if near, ok := text.Closest(name, e.has); ok {
				return "did you mean " + near + "?"
			}
		}
	}
	has := list[0].has
	if len(has) > shown {
		return fmt.Sprintf("snapshot %d has %s and %d others", list[0].snapshot, strings.Join(has[:shown], ", "), len(has)-shown)
	}
	return fmt.Sprintf("snapshot %d has %s", list[0].snapshot, cmp.Or(strings.Join(has, ", "), "no topics"))
}

// chosen returns the metadata of a snapshot without the topics that were not chosen, and how many
// these are. Internal topics are always restored: what they say of other topics is what it would
// say if these had been deleted.
func (s *Snapshot) chosen(x *format.Index) (keys []metadata.KV, left int, err error) {
	keys = make([]metadata.KV, len(x.Keys))
	for i, k := range x.Keys {
		keys[i] = metadata.KV{Key: k.Key, Value: k.Value, ModRevision: k.Revision}
	}
	if len(s.topics) == 0 {
		return keys, 0, nil
	}
	leave, lacks := map[[16]byte]bool{}, &lacksError{snapshot: x.Number, topics: slices.Clone(s.topics)}
	for _, kv := range keys {
		k, err := metadata.ParseKey(kv.Key)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errMetadata, err)
		}
		if k.Kind != metadata.KindTopic {
			continue
		}
		t, err := metadata.DecodeTopicRecord(kv)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errMetadata, err)
		}
		lacks.has = append(lacks.has, t.Name)
		leave[k.ID] = !t.Internal && !slices.Contains(s.topics, t.Name)
		if leave[k.ID] {
			left++
		}
	}
	slices.Sort(lacks.has)
	lacks.topics = slices.DeleteFunc(lacks.topics, func(name string) bool { return slices.Contains(lacks.has, name) })
	if len(lacks.topics) > 0 {
		return nil, 0, lacks
	}
	keys = slices.DeleteFunc(keys, func(kv metadata.KV) bool {
		id, ok := metadata.TopicOf(kv) // what cannot be read stays, and is found by the load
		return ok && leave[id]
	})
	return keys, left, nil
}
