package move

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// cluster returns metadata with brokers 1 to n, in racks if there are some, and a topic with these
// replicas.
func cluster(n int32, racks string, replicas ...[]int32) (kadm.Metadata, kadm.TopicDetail) {
	m := kadm.Metadata{Topics: kadm.TopicDetails{}}
	for id := range n {
		b := kadm.BrokerDetail{NodeID: id + 1}
		if racks != "" {
			rack := racks[id : id+1]
			b.Rack = &rack
		}
		m.Brokers = append(m.Brokers, b)
	}
	t := kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{}}
	for i, r := range replicas {
		t.Partitions[int32(i)] = kadm.PartitionDetail{Topic: "t", Partition: int32(i), Replicas: r}
	}
	m.Topics["t"] = t
	return m, t
}

func TestPlans(t *testing.T) {
	all := [][]int32{{1, 2}, {2, 3}, {3, 1}}
	factor := func(n int) func(*Plan, kadm.TopicDetail) error {
		return func(p *Plan, t kadm.TopicDetail) error { return p.SetFactor(t, n) }
	}
	leave := func(id int32) func(*Plan, kadm.TopicDetail) error {
		return func(p *Plan, t kadm.TopicDetail) error { return p.Leave(t, id) }
	}
	for _, c := range []struct {
		name     string
		brokers  int32
		racks    string
		replicas [][]int32
		plan     func(*Plan, kadm.TopicDetail) error
		want     string
	}{
		{"three replicas", 3, "", all, factor(3), "0 [1 2 3], 1 [2 3 1], 2 [3 1 2]"},
		{"one replica", 3, "", all, factor(1), "0 [1], 1 [2], 2 [3]"},
		{"nothing to do", 3, "", all, factor(2), ""},
		{"the load is spread", 4, "", [][]int32{{1}, {1}, {1}}, factor(2), "0 [1 2], 1 [1 3], 2 [1 4]"},
		{"racks come first", 4, "xxxy", [][]int32{{1}, {1}, {1}}, factor(2), "0 [1 4], 1 [1 4], 2 [1 4]"},
		{"too few brokers", 3, "", all, factor(4), "error: t cannot have 4 replicas"},
		{"a broker leaves", 4, "", all, leave(3), "1 [2 4], 2 [4 1]"},
		{"the rack of the one that leaves is free", 4, "xyzz", [][]int32{{1, 2, 3}}, leave(3), "0 [1 2 4]"},
		{"a dead broker leaves", 3, "", [][]int32{{9, 1}, {2, 3}}, leave(9), "0 [2 1]"},
		{"there is no other broker", 2, "", all[:1], leave(2), "error: t has 2 replicas"},
	} {
		m, topic := cluster(c.brokers, c.racks, c.replicas...)
		p := newPlan(m, nil)
		err := c.plan(p, topic)
		var got []string
		for i, r := range p.moves["t"] {
			got = append(got, fmt.Sprint(i, " ", r))
		}
		slices.Sort(got)
		text := strings.Join(got, ", ")
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != c.want && (err == nil || !strings.HasPrefix(text, c.want)) {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// The replicas that a move in progress removes do not count: they are gone when it is complete.
func TestPlansContinueFromTheMoveInProgress(t *testing.T) {
	for _, c := range []struct {
		name string
		plan func(*Plan, kadm.TopicDetail) error
		want string
	}{
		{"more replicas", func(p *Plan, t kadm.TopicDetail) error { return p.SetFactor(t, 4) }, "[4 2 1 3]"},
		{"the same", func(p *Plan, t kadm.TopicDetail) error { return p.SetFactor(t, 3) }, "[]"},
		{"the broker that is being left", func(p *Plan, t kadm.TopicDetail) error { return p.Leave(t, 3) }, "[]"},
		{"another broker", func(p *Plan, t kadm.TopicDetail) error { return p.Leave(t, 2) }, "[4 3 1]"},
	} {
		m, topic := cluster(5, "", []int32{4, 2, 1, 3}) // from 3 to 4
		if c.name == "more replicas" {
			m.Brokers = m.Brokers[:4]
		}
		p := newPlan(m, kadm.ListPartitionReassignmentsResponses{"t": {0: {AddingReplicas: []int32{4}, RemovingReplicas: []int32{3}}}})
		if err := c.plan(p, topic); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := fmt.Sprint(p.moves["t"][0]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
