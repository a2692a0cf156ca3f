package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// sub reads a subtopology written as words: "in" is a source topic, ">r" a repartition topic that
// it writes, "<r" or "<r=7" one that it reads, "*c" a changelog. A group of copartitioned topics is
// "in~<r".
func sub(id, words string) format.Subtopology {
	s := format.Subtopology{ID: id}
	sources, repartitions := map[string]int16{}, map[string]int16{}
	for _, w := range strings.Fields(words) {
		switch {
		case strings.Contains(w, "~"):
			var g format.CopartitionGroup
			for _, name := range strings.Split(w, "~") {
				if bare, is := strings.CutPrefix(name, "<"); is {
					g.RepartitionSources = append(g.RepartitionSources, repartitions[bare])
				} else {
					g.SourceTopics = append(g.SourceTopics, sources[name])
				}
			}
			s.Copartitioned = append(s.Copartitioned, g)
		case w[0] == '>':
			s.RepartitionSinks = append(s.RepartitionSinks, w[1:])
		case w[0] == '<':
			name, n, _ := strings.Cut(w[1:], "=")
			x := format.InternalTopic{Name: name}
			_, _ = fmt.Sscan(n, &x.Partitions)
			repartitions[name] = int16(len(s.RepartitionSources))
			s.RepartitionSources = append(s.RepartitionSources, x)
		case w[0] == '*':
			s.Changelogs = append(s.Changelogs, format.InternalTopic{Name: w[1:]})
		default:
			sources[w] = int16(len(s.SourceTopics))
			s.SourceTopics = append(s.SourceTopics, w)
		}
	}
	return s
}

func of(subs ...string) *format.Topology {
	t := &format.Topology{}
	for i, words := range subs {
		t.Subtopologies = append(t.Subtopologies, sub(fmt.Sprint(i), words))
	}
	return t
}

// exist returns topics written as "a=3 b=2".
func exist(words string) Topics {
	return func(name string) (int32, bool) {
		for _, w := range strings.Fields(words) {
			if known, n, _ := strings.Cut(w, "="); known == name {
				var partitions int32
				_, _ = fmt.Sscan(n, &partitions)
				return partitions, true
			}
		}
		return 0, false
	}
}

// show writes the tasks by subtopology, the topics to create, and the problem.
func show(c Configured) string {
	var words []string
	for _, s := range c.Subtopologies {
		words = append(words, fmt.Sprintf("%s:%d", s.ID, s.Tasks))
	}
	for _, x := range c.Create {
		words = append(words, fmt.Sprintf("+%s=%d", x.Name, x.Partitions))
	}
	if c.Problem != nil {
		words = append(words, fmt.Sprintf("(%d) %s", c.Problem.Code, c.Problem.Detail))
	}
	return strings.Join(words, " ")
}

// The messages are those that Kafka 4.3.1 sends.
func TestConfigure(t *testing.T) {
	for _, c := range []struct {
		name     string
		topology *format.Topology
		topics   string
		want     string
	}{
		{"ready", of("in"), "in=3", "0:3"},
		{"no subtopologies", of(), "", ""},
		{"the largest source decides", of("a b"), "a=2 b=5", "0:5"},
		{"sources are missing", of("b in a"), "in=3", "(1) Source topics a, b are missing."},
		{"internal topics are missing", of("in >r", "<r *c"), "in=3", "0:3 1:3 +c=3 +r=3 (3) Internal topics are missing: c, r"},
		{"internal topics exist", of("in >r", "<r *c"), "in=3 r=3 c=3", "0:3 1:3"},
		{"a changelog has another size", of("in *c"), "in=3 c=1",
			"(2) Existing topic c has different number of partitions: expected 3, found 1"},
		{"a repartition topic has another size", of("in >r", "<r"), "in=3 r=4",
			"(2) Existing topic r has different number of partitions: expected 3, found 4"},
		{"a fixed number", of("in >r", "<r=7 *c"), "in=3", "0:3 1:7 +c=7 +r=7 (3) Internal topics are missing: c, r"},
		{"a chain", of("in >r", "<r >q", "<q"), "in=3", "0:3 1:3 2:3 +q=3 +r=3 (3) Internal topics are missing: q, r"},
		{"a chain in reverse", of("<q", "<r >q", "in >r"), "in=3", "0:3 1:3 2:3 +q=3 +r=3 (3) Internal topics are missing: q, r"},
		{"several writers", of("a >r", "b >r", "<r"), "a=2 b=5", "0:2 1:5 2:5 +r=5 (3) Internal topics are missing: r"},
		{"copartitioned sources differ", of("in c1 in~c1"), "in=3 c1=2",
			"(2) Following topics do not have the same number of partitions: [{c1=2, in=3}]"},
		{"copartitioned with a source", of("a >r", "b <r b~<r"), "a=2 b=5", "0:2 1:5 +r=5 (3) Internal topics are missing: r"},
		{"what copartitioning sets is inherited", of("a >r", "b <r b~<r >q", "<q"), "a=7 b=5",
			"0:7 1:5 2:5 +q=5 +r=5 (3) Internal topics are missing: q, r"},
		{"a fixed number does not fit its source", of("in >r <r=7 in~<r"), "in=3",
			"(2) Number of partitions [7] of repartition topic [r] doesn't match number of partitions [3] of the source topic."},
		{"copartitioned repartition topics get the largest number", of("a >r", "b >q", "<r <q <r~<q"), "a=2 b=5",
			"0:2 1:5 2:5 +q=5 +r=5 (3) Internal topics are missing: q, r"},
		{"or the fixed one", of("a >r", "b >q", "<r=3 <q <r~<q"), "a=2 b=5",
			"0:2 1:5 2:3 +q=3 +r=3 (3) Internal topics are missing: q, r"},
		{"two fixed ones differ", of("a >r", "b >q", "<r=3 <q=4 <r~<q"), "a=2 b=5",
			"(2) Following topics do not have the same number of partitions: [{q=4, r=3}]"},
		{"two subtopologies want another size of one changelog", of("a *c", "b *c"), "a=2 b=5",
			"(2) Existing topic c has different number of partitions: expected 5, found 2"},
		{"a foreign-key join: two repartition topics depend on each other", of("l <resp >reg l~<resp", "r <reg >resp r~<reg"), "l=3 r=5",
			"0:3 1:5 +reg=5 +resp=3 (3) Internal topics are missing: reg, resp"},
		{"its left side is repartitioned", of("in >l", "<l <resp >reg <l~<resp", "r <reg >resp r~<reg"), "in=3 r=5",
			"0:3 1:5 2:5 +l=5 +reg=5 +resp=5 (3) Internal topics are missing: l, reg, resp"},
		{"a loop without copartitioning", of("a <q >p", "b <p >q", "<p >c", "<c"), "a=2 b=5",
			"0:5 1:5 2:5 3:5 +c=5 +p=5 +q=5 (3) Internal topics are missing: c, p, q"},
		{"a fixed number ends a loop", of("<q >p", "<p=3 >q"), "", "0:3 1:3 +p=3 +q=3 (3) Internal topics are missing: p, q"},
		{"too many tasks", of("a", "b"), "a=60000 b=60000",
			"(2) The topology has 120000 tasks, but at most 100000 are supported. Use topics with fewer partitions."},
	} {
		if err := Check(c.topology); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := show(Configure(c.topology, exist(c.topics))); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestManyMissingTopicsAreCounted(t *testing.T) {
	var words []string
	for i := range 25 {
		words = append(words, fmt.Sprintf("t%02d", i))
	}
	got := show(Configure(of(strings.Join(words, " ")), exist("")))
	if want := "(1) Source topics " + strings.Join(words[:20], ", ") + " and 5 additional topics are missing."; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestInvalidTopologies(t *testing.T) {
	negative, twice, bare := of("in"), of("in", "in"), of("in")
	negative.Epoch = -1
	twice.Subtopologies[1].ID = "0"
	bare.Subtopologies[0].SourceTopics = nil
	changelog, replicas, group := of("in *c"), of("in *c"), of("in")
	changelog.Subtopologies[0].Changelogs[0].Partitions = 2
	replicas.Subtopologies[0].Changelogs[0].ReplicationFactor = -2
	group.Subtopologies[0].Copartitioned = []format.CopartitionGroup{{SourceTopics: []int16{7}}}
	for _, c := range []struct {
		topology *format.Topology
		want     string
	}{
		{negative, "Topology epoch must be non-negative, but it is -1."},
		{twice, `Subtopology IDs must be unique and not empty, but "0" is not.`},
		{bare, "No source topics found for subtopology 0"},
		{changelog, "Changelog topic c must have an undefined partition count, but it is set to 2."},
		{replicas, "Topic c has a negative number of partitions or replicas."},
		{group, "A copartition group of subtopology 0 names a source topic that it does not have."},
		{of(strings.Repeat("in ", 2000)), "The topology names topics 2001 times, but at most 2000 times are supported."},
		{of("in", ">r <r"), "Failed to compute number of partitions for all repartition topics. " +
			"There may be loops in the topology that cannot be resolved."},
		{of("in", "<q >p", "<p >q"), "Failed to compute number of partitions for all repartition topics. " +
			"There may be loops in the topology that cannot be resolved."},
		{of("in", "<r"), "Failed to compute number of partitions for all repartition topics, " +
			"because a repartition source topic is never used as a sink topic."},
	} {
		if err := Check(c.topology); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// Kafka Streams sends a replication factor of -1 by default.
func TestDefaultReplicationFactorIsValid(t *testing.T) {
	top := of("in *c")
	top.Subtopologies[0].Changelogs[0].ReplicationFactor = -1
	if err := Check(top); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	if got := strings.Join(Names(of("in a >r", "<r *c in")), " "); got != "a c in r" {
		t.Error(got)
	}
}
