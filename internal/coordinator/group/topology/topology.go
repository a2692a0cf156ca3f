// Package topology checks the topology of a streams group (KIP-1071) and applies it to the topics
// that exist: which topics are missing, how many partitions the internal topics must have, and how
// many tasks each subtopology has.
//
// It owns these rules, as pure functions. The messages and status codes are Kafka's. The group
// coordinator calls them; the package neither creates topics nor knows members.
package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Codes of problems, as StreamsGroupHeartbeat reports them.
const (
	MissingSources  int8 = 1
	Partitioning    int8 = 2
	MissingInternal int8 = 3
)

// Problem is why the tasks of a topology can't run yet. Creating or changing topics solves it.
type Problem struct {
	Code   int8
	Detail string
}

// Configured is a topology applied to the existing topics.
type Configured struct {
	// Subtopologies are in the order of the topology. They are missing with a problem, except for
	// MissingInternal.
	Subtopologies []Subtopology
	Problem       *Problem               // nil: the topology is ready
	Create        []format.InternalTopic // internal topics that do not exist, sorted by name
}

// Subtopology is a configured subtopology.
type Subtopology struct {
	ID       string
	Tasks    int32
	Stateful bool
	Sources  []string // topics that it reads, sorted
	// Changelogs and RepartitionSources have the number of partitions that they must have.
	Changelogs, RepartitionSources []format.InternalTopic
}

// invalid returns an error with a message of Kafka's, which is a sentence.
func invalid(format string, args ...any) error { return invalidError(fmt.Sprintf(format, args...)) }

type invalidError string

func (e invalidError) Error() string { return string(e) }

// Topics returns the number of partitions of a topic, and whether it exists.
type Topics func(name string) (partitions int32, exists bool)

// MaxTasks bounds the tasks of a topology, because the coordinator keeps each in memory. maxTopics
// bounds how often a topology names topics, which bounds the time to configure it.
const (
	MaxTasks  = 100_000
	maxTopics = 2_000
)

// Check returns why a topology can never be valid, whatever topics exist.
func Check(t *format.Topology) error {
	if t.Epoch < 0 {
		return invalid("Topology epoch must be non-negative, but it is %d.", t.Epoch)
	}
	if n := mentions(t); n > maxTopics {
		return invalid("The topology names topics %d times, but at most %d times are supported.", n, maxTopics)
	}
	seen := map[string]bool{}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if s.ID == "" || seen[s.ID] {
			return invalid("Subtopology IDs must be unique and not empty, but %q is not.", s.ID)
		}
		seen[s.ID] = true
		if err := checkSubtopology(s); err != nil {
			return err
		}
	}
	_, err := count(t, func(string) int32 { return 1 })
	return err
}

// mentions returns how often a topology names topics.
func mentions(t *format.Topology) (n int) {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		n += 1 + len(s.SourceTopics) + len(s.SourceRegexes) + len(s.Changelogs) + len(s.RepartitionSinks) + len(s.RepartitionSources)
		for _, g := range s.Copartitioned {
			n += 1 + len(g.SourceTopics) + len(g.SourceRegexes) + len(g.RepartitionSources)
		}
	}
	return n
}

func checkSubtopology(s *format.Subtopology) error {
	if len(s.SourceTopics)+len(s.RepartitionSources) == 0 {
		return invalid("No source topics found for subtopology %s", s.ID)
	}
	for _, c := range s.Changelogs {
		if c.Partitions != 0 {
			return invalid("Changelog topic %s must have an undefined partition count, but it is set to %d.", c.Name, c.Partitions)
		}
	}
	for _, x := range slices.Concat(s.Changelogs, s.RepartitionSources) {
		if x.Partitions < 0 || x.ReplicationFactor < -1 { // Kafka Streams sends -1 for the broker's default
			return invalid("Topic %s has a negative number of partitions or replicas.", x.Name)
		}
	}
	for _, g := range s.Copartitioned {
		if !within(g.SourceTopics, len(s.SourceTopics)) || !within(g.RepartitionSources, len(s.RepartitionSources)) ||
			len(g.SourceRegexes) > 0 {
			return invalid("A copartition group of subtopology %s names a source topic that it does not have.", s.ID)
		}
	}
	return nil
}

func within(indexes []int16, n int) bool {
	return !slices.ContainsFunc(indexes, func(i int16) bool { return i < 0 || int(i) >= n })
}

// Names returns the names of all topics of a topology, each once, sorted.
func Names(t *format.Topology) []string {
	var names []string
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		names = append(append(names, s.SourceTopics...), s.RepartitionSinks...)
		for _, x := range slices.Concat(s.Changelogs, s.RepartitionSources) {
			names = append(names, x.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Sources returns the topics that a subtopology reads, each once, sorted.
func Sources(s *format.Subtopology) []string {
	names := slices.Clone(s.SourceTopics)
	for _, x := range s.RepartitionSources {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Configure applies a topology that Check accepts to the existing topics.
func Configure(t *format.Topology, topics Topics) Configured {
	if p := missingSources(t, topics); p != nil {
		return Configured{Problem: p}
	}
	partitions, err := count(t, func(name string) int32 {
		n, _ := topics(name)
		return n
	})
	if err == nil {
		err = checkCopartitioned(t, partitions)
	}
	if err != nil {
		return Configured{Problem: &Problem{Partitioning, err.Error()}}
	}
	c := Configured{Subtopologies: make([]Subtopology, len(t.Subtopologies))}
	total := 0
	for i := range t.Subtopologies {
		c.Subtopologies[i] = configured(&t.Subtopologies[i], partitions)
		total += int(c.Subtopologies[i].Tasks)
	}
	if total > MaxTasks {
		return Configured{Problem: &Problem{Partitioning, fmt.Sprintf(
			"The topology has %d tasks, but at most %d are supported. Use topics with fewer partitions.", total, MaxTasks)}}
	}
	return c.withInternal(topics)
}

func configured(s *format.Subtopology, partitions map[string]int32) Subtopology {
	c := Subtopology{ID: s.ID, Stateful: len(s.Changelogs) > 0, Sources: Sources(s)}
	for _, name := range c.Sources {
		c.Tasks = max(c.Tasks, partitions[name])
	}
	for _, x := range s.Changelogs {
		x.Partitions = c.Tasks
		c.Changelogs = append(c.Changelogs, x)
	}
	for _, x := range s.RepartitionSources {
		x.Partitions = partitions[x.Name]
		c.RepartitionSources = append(c.RepartitionSources, x)
	}
	return c
}

// withInternal compares the internal topics with those that exist.
func (c Configured) withInternal(topics Topics) Configured {
	known := map[string]int32{}
	var missing []string
	for _, s := range c.Subtopologies {
		for _, x := range slices.Concat(s.RepartitionSources, s.Changelogs) {
			n, exists := topics(x.Name)
			if had, again := known[x.Name]; again && had != x.Partitions || exists && n != x.Partitions {
				if !exists {
					n = had
				}
				return Configured{Problem: &Problem{Partitioning, fmt.Sprintf(
					"Existing topic %s has different number of partitions: expected %d, found %d", x.Name, x.Partitions, n)}}
			}
			if _, again := known[x.Name]; !again && !exists {
				c.Create, missing = append(c.Create, x), append(missing, x.Name)
			}
			known[x.Name] = x.Partitions
		}
	}
	if len(missing) > 0 {
		sorts.Sort(c.Create, func(a, b format.InternalTopic) int { return cmp.Compare(a.Name, b.Name) })
		slices.Sort(missing)
		c.Problem = &Problem{MissingInternal, "Internal topics are missing: " + listed(missing)}
	}
	return c
}

func missingSources(t *format.Topology, topics Topics) *Problem {
	var missing []string
	for i := range t.Subtopologies {
		for _, name := range t.Subtopologies[i].SourceTopics {
			if _, exists := topics(name); !exists {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &Problem{MissingSources, "Source topics " + listed(slices.Compact(missing)) + " are missing."}
}

// maxListed bounds the names in a status.
const maxListed = 20

func listed(names []string) string {
	if n := len(names) - maxListed; n > 0 {
		return fmt.Sprintf("%s and %d additional topics", strings.Join(names[:maxListed], ", "), n)
	}
	return strings.Join(names, ", ")
}
