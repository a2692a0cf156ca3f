package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Groups describes the groups that this broker coordinates, for one scrape.
type Groups struct {
	States map[GroupState]int
	// Shards counts the coordinator's shards by state.
	Shards map[string]int
	Lags   []Lag
}

// GroupState is a type of group, "classic", "consumer" or "streams", and its state.
type GroupState struct{ Type, State string }

// Lag is the number of records in a partition that a group has not committed.
type Lag struct {
	Group, Topic string
	Partition    int32
	Records      int64
}

// MaxLags bounds the series of one scrape, because clients choose the number of groups.
const MaxLags = 10_000

// RegisterGroups registers the groups by state and their lags. Every scrape calls source. It
// exports the first MaxLags lags by name, and the number of the others. If each is false, it
// exports only the sums by group and topic.
func RegisterGroups(reg prometheus.Registerer, each bool, source func() Groups) error {
	var s scraped
	states := s.gauge(nameGroups, "Groups that this broker coordinates.", "type", "state")
	shards := s.gauge(nameGroupShards, "Partitions of __consumer_offsets by the state of their coordinator.", "state")
	lag := s.gauge(nameGroupLag, "Records of a partition that a group has not committed.", "group", "topic", "partition")
	topicLag := s.gauge(nameGroupTopicLag,
		"Records of a topic that a group has not committed, in the partitions whose lag is exported.", "group", "topic")
	omitted := s.gauge(nameGroupLagOmitted,
		"Partitions of groups whose lag is omitted, because there are too many or the group's name is not valid UTF-8.")
	s.read = func(send sendFunc) {
		now := source()
		for s, n := range now.States {
			send(states, float64(n), s.Type, s.State)
		}
		for s, n := range now.Shards {
			send(shards, float64(n), s)
		}
		lags := shownLags(now.Lags)
		send(omitted, float64(len(now.Lags)-len(lags)))
		for i := 0; i < len(lags); {
			first, sum := &lags[i], int64(0)
			for ; i < len(lags) && lags[i].Group == first.Group && lags[i].Topic == first.Topic; i++ {
				sum += lags[i].Records
				if each {
					send(lag, float64(lags[i].Records), first.Group, first.Topic, strconv.Itoa(int(lags[i].Partition)))
				}
			}
			send(topicLag, float64(sum), first.Group, first.Topic)
		}
	}
	return reg.Register(&s)
}

// shownLags returns the first MaxLags lags of groups with valid names, sorted. It changes all.
func shownLags(all []Lag) []Lag {
	lags := slices.DeleteFunc(all, func(l Lag) bool { return !utf8.ValidString(l.Group) })
	slices.SortFunc(lags, func(a, b Lag) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return lags[:min(len(lags), MaxLags)]
}
