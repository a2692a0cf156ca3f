package group

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/coordinator/group/topology"
	"github.com/chronik-io/chronik/internal/sorts"
)

// initTopology records the topology of a group's first member. Later members must have the same
// one; a member with an older epoch gets the status STALE_TOPOLOGY.
func (s *Shard) initTopology(g *group, req *kmsg.StreamsGroupHeartbeatRequest) {
	if c := g.streams(); req.Topology != nil && c.topology == nil {
		s.emit(format.Key{Type: format.TypeTopology, Group: g.id}, recordedTopology(req.Topology))
	}
}

// checkTopology returns why a member may not join with a topology.
func (c *streams) checkTopology(t *kmsg.StreamsGroupHeartbeatRequestTopology) *failure {
	sent := recordedTopology(t)
	if err := topology.Check(&sent); err != nil {
		return fail(kerr.StreamsInvalidTopology, "%s", err)
	}
	if c == nil || c.topology == nil || t.Epoch < c.topology.Epoch ||
		t.Epoch == c.topology.Epoch && slices.Equal(sent.Encode(), c.topology.Encode()) {
		return nil
	}
	return fail(kerr.InvalidRequest, "Topology updates are not supported yet.") // nor in Kafka 4.3
}

// recordedTopology returns a topology with all lists sorted, because clients that run the same
// topology may send them in any order.
func recordedTopology(t *kmsg.StreamsGroupHeartbeatRequestTopology) format.Topology {
	r := format.Topology{Epoch: t.Epoch}
	for i := range t.Subtopologies {
		q := &t.Subtopologies[i]
		s := format.Subtopology{ID: q.SubtopologyID, Changelogs: recordedTopics(q.StateChangelogTopics),
			RepartitionSources: recordedTopics(q.RepartitionSourceTopics),
			RepartitionSinks:   slices.Sorted(slices.Values(q.RepartitionSinkTopics))}
		var sources, regexes, repartitions []int
		s.SourceTopics, sources = sortedWithPositions(q.SourceTopics, strings.Compare)
		s.SourceRegexes, regexes = sortedWithPositions(q.SourceTopicRegex, strings.Compare)
		sorts.Sort(s.Changelogs, byName)
		s.RepartitionSources, repartitions = sortedWithPositions(s.RepartitionSources, byName)
		for _, c := range q.CopartitionGroups {
			s.Copartitioned = append(s.Copartitioned, format.CopartitionGroup{SourceTopics: moved(c.SourceTopics, sources),
				SourceRegexes: moved(c.SourceTopicRegex, regexes), RepartitionSources: moved(c.RepartitionSourceTopics, repartitions)})
		}
		sorts.Sort(s.Copartitioned, func(a, b format.CopartitionGroup) int {
			return cmp.Or(slices.Compare(a.SourceTopics, b.SourceTopics), slices.Compare(a.SourceRegexes, b.SourceRegexes),
				slices.Compare(a.RepartitionSources, b.RepartitionSources))
		})
		r.Subtopologies = append(r.Subtopologies, s)
	}
	sorts.SortStable(r.Subtopologies, func(a, b format.Subtopology) int { return strings.Compare(a.ID, b.ID) })
	return r
}

func byName(a, b format.InternalTopic) int { return strings.Compare(a.Name, b.Name) }

// sortedWithPositions returns a sorted list, and the position of each element of the original one.
// The list may have more elements than an int16 can number; topology.Check refuses it later.
func sortedWithPositions[E any](list []E, compare func(a, b E) int) (sorted []E, positions []int) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	sorts.SortStable(order, func(a, b int) int { return compare(list[a], list[b]) })
	positions = make([]int, len(list))
	for to, from := range order {
		sorted, positions[from] = append(sorted, list[from]), to
	}
	return sorted, positions
}

// moved returns the indexes of elements after they were moved to positions, sorted. An index out of
// range stays: topology.Check refuses it.
func moved(indexes []int16, positions []int) []int16 {
	list := make([]int16, 0, len(indexes))
	for _, i := range indexes {
		if i >= 0 && int(i) < len(positions) {
			i = int16(positions[i])
		}
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

func recordedTopics(list []kmsg.TopicInfo) (topics []format.InternalTopic) {
	for _, t := range list {
		x := format.InternalTopic{Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor}
		for _, c := range t.Configs {
			x.Configs = append(x.Configs, format.KeyValue{Key: c.Key, Value: c.Value})
		}
		sorts.Sort(x.Configs, func(a, b format.KeyValue) int { return strings.Compare(a.Key, b.Key) })
		topics = append(topics, x)
	}
	return topics
}

// configure applies the group's topology to the current topics, and computes their hash.
func (s *Shard) configure(c *streams) *topology.Configured {
	if c.configured == nil {
		t := topology.Configure(c.topology, func(name string) (int32, bool) {
			t, exists := s.topics.ByName(name)
			return t.Partitions, exists
		})
		names := map[string]struct{}{}
		for _, name := range topology.Names(c.topology) {
			names[name] = struct{}{}
		}
		c.configured, c.topicsHash = &t, hashTopics(s.topics, names)
	}
	return c.configured
}

// bumpStreams raises the group epoch if anyway is true, or if the topics, the result of the
// topology, or the settings of the assignment have changed. As in Kafka, the first epoch is 2.
func (s *Shard) bumpStreams(g *group, anyway bool) {
	c := g.streams()
	next := format.Streams{Epoch: max(c.epoch, 1) + 1, Validated: -1,
		Configs: []format.KeyValue{{Key: "num.standby.replicas", Value: strconv.Itoa(s.timesOf(g).Streams.Standbys)}}}
	if s.configure(c).Problem == nil {
		next.Validated = c.topology.Epoch
	}
	next.Hash = c.topicsHash
	if anyway || c.epoch == 0 || next.Hash != c.hash || next.Validated != c.validated || !slices.Equal(next.Configs, c.configs) {
		s.emit(format.Key{Type: format.TypeStreams, Group: g.id}, next)
	}
}

// delayed returns why the target of the group's epoch is not computed yet, "" if it is, or can be.
func (s *Shard) delayed(g *group) (detail string, wait time.Duration) {
	c, times := g.streams(), s.timesOf(g).Streams
	if c.epoch <= c.targetEpoch {
		return "", 0
	}
	if c.waiting {
		return "Assignment delayed due to the configured initial rebalance delay.", -1 // the timer is set
	}
	if wait := s.untilNext(c.targetTime, times.Interval); wait > 0 {
		return "Assignment delayed due to the configured assignment interval.", wait
	}
	return "", 0
}

// updateTasks computes and records the target of the group's epoch, if it is missing and need not
// wait. It returns why it waits. A topology whose topics are not complete has no tasks.
func (s *Shard) updateTasks(g *group) (delayed string) {
	c := g.streams()
	if s.topicsUnknown() || c.topology == nil || c.empty() || c.epoch <= c.targetEpoch {
		return ""
	}
	detail, wait := s.delayed(g)
	if detail != "" {
		if wait > 0 {
			s.setTimer(timerTarget, g.id, "", wait)
		}
		return detail
	}
	in := assign.TaskInput{Standbys: s.timesOf(g).Streams.Standbys}
	if t := s.configure(c); t.Problem == nil {
		for _, sub := range t.Subtopologies {
			in.Subtopologies = append(in.Subtopologies, assign.Subtopology{ID: sub.ID, Tasks: sub.Tasks, Stateful: sub.Stateful})
		}
	}
	for _, m := range c.list() {
		in.Members = append(in.Members, assign.TaskMember{ID: m.id, Process: m.meta.Process, Previous: c.target[m.id]})
	}
	next := assign.Sticky(in)
	for _, m := range c.list() {
		if had, known := c.target[m.id]; !known || !had.Equal(next[m.id]) {
			s.emit(format.Key{Type: format.TypeStreamsTarget, Group: g.id, Item: m.id},
				format.StreamsTarget{Active: bySubtopology(next[m.id].Active), Standby: bySubtopology(next[m.id].Standby)})
		}
	}
	s.emit(format.Key{Type: format.TypeStreamsEpoch, Group: g.id}, format.TargetEpoch{Epoch: c.epoch, Time: s.nowMillis()})
	return ""
}

// removeStreamsMember removes a member that has left or timed out. A later request of a remaining
// member, if there is any, computes the target.
func (s *Shard) removeStreamsMember(g *group, m *streamsMember) {
	c := g.streams()
	s.dropStreamsMember(g, m)
	if m.meta.Endpoint != nil {
		c.endpoints++
	}
	if c.empty() {
		c.shutdown, c.waiting = "", false
		s.cancelTimer(timerTarget, g.id, "")
	}
	if s.topicsUnknown() || c.topology == nil {
		s.emit(format.Key{Type: format.TypeStreams, Group: g.id},
			format.Streams{Epoch: c.epoch + 1, Hash: c.hash, Validated: c.validated, Configs: c.configs})
		return
	}
	s.bumpStreams(g, true)
}

// dropStreamsMember records that a member is gone.
func (s *Shard) dropStreamsMember(g *group, m *streamsMember) {
	s.cancelTimer(timerSession, g.id, m.id)
	s.cancelTimer(timerRebalance, g.id, m.id)
	for _, t := range []format.Type{format.TypeStreamsCurrent, format.TypeStreamsTarget, format.TypeStreamsMember} {
		s.emit(format.Key{Type: t, Group: g.id, Item: m.id}, nil)
	}
}

// hiddenProblem is what a member learns of a problem if the group's topology, which may be another
// than its own, names topics that it may not see.
const hiddenProblem = "Topics of the group are missing or unsuitable. The right to describe all of them shows which."

// namesOnly reports whether all topics that the topology names are visible.
func (c *streams) namesOnly(visible func(topic string) bool) bool {
	for i := range c.topology.Subtopologies {
		sub := &c.topology.Subtopologies[i]
		for _, name := range slices.Concat(sub.SourceTopics, sub.RepartitionSinks) {
			if !visible(name) {
				return false
			}
		}
		for _, x := range slices.Concat(sub.Changelogs, sub.RepartitionSources) {
			if !visible(x.Name) {
				return false
			}
		}
	}
	return true
}
