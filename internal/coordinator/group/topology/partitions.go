package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// A repartition topic without a fixed number of partitions gets as many as the largest source topic
// of the subtopologies that write it. If it is copartitioned with a source topic of the
// application, it gets as many as that has, and among repartition topics the largest number. A
// number that copartitioning has set holds for the subtopologies that read the topic, too.

// counts are numbers of partitions by topic.
type counts map[string]int32

// count returns the number of partitions of all topics that subtopologies read. source returns that
// of a topic of the application.
func count(t *format.Topology, source func(name string) int32) (counts, error) {
	fixed := counts{}
	for i := range t.Subtopologies {
		for _, x := range t.Subtopologies[i].RepartitionSources {
			if x.Partitions > 0 {
				fixed[x.Name] = x.Partitions
			}
		}
	}
	// Each round but the last one sets the number of at least one more topic.
	for {
		known, err := propagate(t, fixed, source)
		if err != nil {
			return nil, err
		}
		if !copartition(t, known, fixed) {
			return known, nil
		}
	}
}

// propagate computes the numbers of the topics that are not fixed from those of the subtopologies
// that write them.
func propagate(t *format.Topology, fixed counts, source func(name string) int32) (counts, error) {
	w := walk{known: maps.Clone(fixed), writers: map[string][]*format.Subtopology{}, largest: map[*format.Subtopology]int32{}}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, name := range s.SourceTopics {
			w.known[name] = source(name)
		}
		for _, name := range s.RepartitionSinks {
			w.writers[name] = append(w.writers[name], s)
		}
	}
	for i := range t.Subtopologies {
		if _, err := w.subtopology(&t.Subtopologies[i]); err != nil {
			return nil, err
		}
	}
	return w.known, nil
}

// walk visits subtopologies and topics against the direction of the data, each once.
type walk struct {
	known   counts
	writers map[string][]*format.Subtopology
	largest map[*format.Subtopology]int32 // 0 while it is being computed
}

// subtopology returns the largest number of partitions of the topics that a subtopology reads.
func (w *walk) subtopology(s *format.Subtopology) (int32, error) {
	if n, visited := w.largest[s]; visited {
		if n == 0 {
			return 0, invalid("Failed to compute number of partitions for all repartition topics. " +
				"There may be loops in the topology that cannot be resolved.")
		}
		return n, nil
	}
	w.largest[s] = 0
	var most int32
	for _, name := range Sources(s) {
		n, err := w.topic(name)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	w.largest[s] = most
	return most, nil
}

func (w *walk) topic(name string) (int32, error) {
	if n, ok := w.known[name]; ok {
		return n, nil
	}
	if w.writers[name] == nil {
		return 0, invalid("Failed to compute number of partitions for all repartition topics, " +
			"because a repartition source topic is never used as a sink topic.")
	}
	var most int32
	for _, s := range w.writers[name] {
		n, err := w.subtopology(s)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	w.known[name] = most
	return most, nil
}

// copartition fixes the numbers of copartitioned repartition topics, and reports whether one has
// changed.
func copartition(t *format.Topology, known, fixed counts) (changed bool) {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, g := range s.Copartitioned {
			n := wanted(s, g, known, fixed)
			for _, k := range g.RepartitionSources {
				name := s.RepartitionSources[k].Name
				if _, set := fixed[name]; !set && n != known[name] {
					fixed[name], changed = n, true
				}
			}
		}
	}
	return changed
}

// wanted returns the number of partitions that the topics of a copartition group should have.
func wanted(s *format.Subtopology, g format.CopartitionGroup, known, fixed counts) int32 {
	if len(g.SourceTopics) > 0 {
		return known[s.SourceTopics[g.SourceTopics[0]]]
	}
	var most, set int32
	for _, k := range g.RepartitionSources {
		name := s.RepartitionSources[k].Name
		most, set = max(most, known[name]), max(set, fixed[name])
	}
	if set > 0 {
		return set
	}
	return most
}

// checkCopartitioned returns an error if the topics of a copartition group have different numbers
// of partitions.
func checkCopartitioned(t *format.Topology, known counts) error {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, g := range s.Copartitioned {
			if err := checkGroup(s, g, known); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkGroup(s *format.Subtopology, g format.CopartitionGroup, known counts) error {
	sources, repartitions := counts{}, counts{}
	for _, k := range g.SourceTopics {
		sources[s.SourceTopics[k]] = known[s.SourceTopics[k]]
	}
	for _, k := range g.RepartitionSources {
		repartitions[s.RepartitionSources[k].Name] = known[s.RepartitionSources[k].Name]
	}
	switch {
	case !sources.equal():
		return sources.different()
	case len(sources) == 0 && !repartitions.equal():
		return repartitions.different()
	case len(sources) == 0:
		return nil
	}
	want := sources[s.SourceTopics[g.SourceTopics[0]]]
	for _, name := range slices.Sorted(maps.Keys(repartitions)) {
		if n := repartitions[name]; n != want {
			return invalid("Number of partitions [%d] of repartition topic [%s] doesn't match number of partitions [%d] of the source topic.",
				n, name, want)
		}
	}
	return nil
}

func (c counts) equal() bool {
	first := int32(-1)
	for _, n := range c {
		if first < 0 {
			first = n
		}
		if n != first {
			return false
		}
	}
	return true
}

func (c counts) different() error {
	list := make([]string, 0, len(c))
	for _, name := range slices.Sorted(maps.Keys(c)) {
		list = append(list, fmt.Sprintf("%s=%d", name, c[name]))
	}
	return invalid("Following topics do not have the same number of partitions: [{%s}]", strings.Join(list, ", "))
}
