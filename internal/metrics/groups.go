package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// groupLag is the lag of a group in a partition.
type groupLag struct {
	group string
	view.GroupOffset
}

// groupState is what groups are counted by.
type groupState struct{ kind, state string }

// MaxLags bounds the series of one scrape, because clients choose the number of groups, and
// MaxLagNames the bytes of their names. A scrape has each name twice at most, in twice as many
// bytes at most.
const (
	MaxLags     = 10_000
	MaxLagNames = 3 << 20
)

// RegisterGroups registers the groups by state and their lags. Every scrape calls source. It
// exports the first lags by name, as many as MaxLags and MaxLagNames allow, and the number of the
// others. If each is false, it exports only the sums by group and topic.
func RegisterGroups(reg prometheus.Registerer, each bool, source func() view.Groups) error {
	var s scraped
	states := s.gauge(nameGroups, "Groups that this broker coordinates.", "type", "state")
	shards := s.gauge(nameGroupShards, "Partitions of __consumer_offsets by the state of their coordinator.", "state")
	lag := s.gauge(nameGroupLag, "Records of a partition that a group has not committed, or a share group has not finished.",
		"group", "topic", "partition")
	topicLag := s.gauge(nameGroupTopicLag,
		"Records of a topic that a group has not committed or finished, in the partitions whose lag is exported.", "group", "topic")
	omitted := s.gauge(nameGroupLagOmitted,
		"Partitions of groups whose lag is omitted: there are too many, their names have too many bytes, or a group's name is not valid UTF-8.")
	s.read = func(send sendFunc) {
		now := source()
		counts := map[groupState]int{}
		for i := range now.List {
			counts[groupState{now.List[i].Kind, now.List[i].State}]++
		}
		for s, n := range counts {
			send(states, float64(n), s.kind, s.state)
		}
		for s, n := range now.Shards {
			send(shards, float64(n), s)
		}
		lags, more := shownLags(slices.Concat(now.List, now.Led))
		send(omitted, float64(more))
		for i := 0; i < len(lags); {
			first, sum := &lags[i], int64(0)
			for ; i < len(lags) && lags[i].group == first.group && lags[i].Topic == first.Topic; i++ {
				sum += lags[i].Lag
				if each {
					send(lag, float64(lags[i].Lag), first.group, first.Topic, strconv.Itoa(int(lags[i].Partition)))
				}
			}
			send(topicLag, float64(sum), first.group, first.Topic)
		}
	}
	return reg.Register(&s)
}

// shownLags returns the first known lags of groups with valid names, sorted, and the number of the
// others.
func shownLags(all []view.Group) (lags []groupLag, more int) {
	for i := range all {
		for _, o := range all[i].Offsets {
			switch {
			case o.Lag < 0: // another broker knows it
			case utf8.ValidString(all[i].ID):
				lags = append(lags, groupLag{all[i].ID, o})
			default:
				more++
			}
		}
	}
	sorts.Sort(lags, func(a, b groupLag) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	n, names := 0, 0
	for ; n < min(len(lags), MaxLags); n++ {
		if names += len(lags[n].group) + len(lags[n].Topic); names > MaxLagNames {
			break
		}
	}
	return lags[:n], more + len(lags) - n
}
