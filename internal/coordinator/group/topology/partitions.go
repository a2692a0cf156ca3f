package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// A repartition topic without a fixed number of partitions gets as many as the largest source topic
// of the subtopologies that write it, and of those that write what they read. If it is
// copartitioned with a source topic of the application, it gets as many as that has, and among
// repartition topics the largest number. A number that copartitioning has set holds for the
// subtopologies that also read the topic.

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

// propagate computes the numbers of the topics that are not fixed: the largest number that reaches
// the topic in the direction of the data. The topic with the most partitions goes first, so each
// subtopology is visited once, and loops, such as those of foreign-key joins, need no order.
func propagate(t *format.Topology, fixed counts, source func(name string) int32) (counts, error) {
	known, readers, written := maps.Clone(fixed), map[string][]*format.Subtopology{}, map[string]bool{}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, name := range s.SourceTopics {
			known[name] = source(name)
		}
		for _, name := range Sources(s) {
			readers[name] = append(readers[name], s)
		}
		for _, name := range s.RepartitionSinks {
			written[name] = true
		}
	}
	visited := map[*format.Subtopology]bool{}
	for _, first := range slices.SortedFunc(maps.Keys(known), func(a, b string) int { return cmp.Compare(known[b], known[a]) }) {
		for reached := []string{first}; len(reached) > 0; {
			name := reached[len(reached)-1]
			reached = reached[:len(reached)-1]
			for _, s := range readers[name] {
				if visited[s] {
					continue
				}
				visited[s] = true
				for _, sink := range s.RepartitionSinks {
					if _, set := known[sink]; !set {
						known[sink] = known[first]
						reached = append(reached, sink)
					}
				}
			}
		}
	}
	return known, complete(t, known, written)
}

// complete returns an error if a subtopology reads a topic without a number of partitions.
func complete(t *format.Topology, known counts, written map[string]bool) error {
	for i := range t.Subtopologies {
		for _, x := range t.Subtopologies[i].RepartitionSources {
			if _, ok := known[x.Name]; !ok && written[x.Name] {
				return invalid("Failed to compute number of partitions for all repartition topics. " +
					"There may be loops in the topology that cannot be resolved.")
			} else if !ok {
				return invalid("Failed to compute number of partitions for all repartition topics, " +
					"because a repartition source topic is never used as a sink topic.")
			}
		}
	}
	return nil
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
