package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Groups is what one scrape says about the groups that this broker coordinates.
type Groups struct {
	States map[GroupState]int
	// Shards counts the coordinator's shards by what they are doing.
	Shards map[string]int
	Lags   []Lag
}

// GroupState is a kind of group: "classic" or "consumer", and its state.
type GroupState struct{ Type, State string }

// Lag is how many records a group has not committed in one partition.
type Lag struct {
	Group, Topic string
	Partition    int32
	Records      int64
}

// MaxLags bounds the series of one scrape: clients choose how many groups there are.
const MaxLags = 10_000

// groups collects on scrape, like logs.
type groups struct {
	source                                 func() Groups
	each                                   bool
	states, shards, lag, topicLag, omitted *prometheus.Desc
}

// RegisterGroups adds the groups by state and the lag of each, asked of source on every
// scrape. Of more than MaxLags partitions the first by name are shown, and the number
// of the others. Without each there are only the sums by group and topic.
func RegisterGroups(reg prometheus.Registerer, each bool, source func() Groups) error {
	return reg.Register(&groups{
		source: source, each: each,
		states:   prometheus.NewDesc(nameGroups, "Groups that this broker coordinates.", []string{"type", "state"}, nil),
		shards:   prometheus.NewDesc(nameGroupShards, "Partitions of __consumer_offsets by what their coordinator is doing.", []string{"state"}, nil),
		lag:      prometheus.NewDesc(nameGroupLag, "Records of a partition that a group has not committed.", []string{"group", "topic", "partition"}, nil),
		topicLag: prometheus.NewDesc(nameGroupTopicLag, "Records of a topic that a group has not committed, over its partitions that are shown.", []string{"group", "topic"}, nil),
		omitted:  prometheus.NewDesc(nameGroupLagOmitted, "Partitions of groups whose lag is left out, because there are too many or their group's name is no text.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (g *groups) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.states, g.shards, g.lag, g.topicLag, g.omitted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *groups) Collect(ch chan<- prometheus.Metric) {
	now := g.source()
	send := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for s, n := range now.States {
		send(g.states, int64(n), s.Type, s.State)
	}
	for s, n := range now.Shards {
		send(g.shards, int64(n), s)
	}
	all := len(now.Lags)
	lags := slices.DeleteFunc(now.Lags, func(l Lag) bool { return !utf8.ValidString(l.Group) })
	slices.SortFunc(lags, func(a, b Lag) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	lags = lags[:min(len(lags), MaxLags)]
	for i := 0; i < len(lags); {
		first, sum := &lags[i], int64(0)
		for ; i < len(lags) && lags[i].Group == first.Group && lags[i].Topic == first.Topic; i++ {
			sum += lags[i].Records
			if g.each {
				send(g.lag, lags[i].Records, first.Group, first.Topic, strconv.Itoa(int(lags[i].Partition)))
			}
		}
		send(g.topicLag, sum, first.Group, first.Topic)
	}
	send(g.omitted, int64(all-len(lags)))
}
