// Package move plans and requests moves of partitions to other brokers, for the commands topic and
// broker.
package move

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Plan chooses brokers for replicas. Of several, it chooses one in a rack that has no replica of
// the partition, then the one with the fewest replicas.
type Plan struct {
	brokers kadm.BrokerDetails
	load    map[int32]int // replicas by broker, with those that are planned
	moves   kadm.AlterPartitionAssignmentsReq
	list    []string // the moves as text
	count   map[string]int
	topics  []string
	moving  kadm.ListPartitionReassignmentsResponses
}

// Read returns an empty plan for the cluster as it is now.
func Read(ctx context.Context, adm *kadm.Client) (*Plan, kadm.Metadata, error) {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return nil, m, app.Refused("read the metadata", app.BrokerError(err), "")
	}
	moves, err := adm.ListPartitionReassignments(ctx, nil)
	if err != nil && !app.IsUnsupported(app.BrokerError(err)) {
		return nil, m, app.Refused("read the moves in progress", app.BrokerError(err), "")
	}
	return newPlan(m, moves), m, nil
}

// newPlan returns an empty plan. The metadata must have all topics, and moves all reassignments in
// progress.
func newPlan(m kadm.Metadata, moves kadm.ListPartitionReassignmentsResponses) *Plan {
	p := &Plan{brokers: m.Brokers, load: map[int32]int{}, count: map[string]int{}, moving: moves}
	for _, t := range m.Topics {
		for _, x := range t.Partitions {
			for _, r := range p.replicas(t.Topic, x) {
				p.load[r]++
			}
		}
	}
	return p
}

// replicas returns those that a partition has when the move in progress is complete.
func (p *Plan) replicas(topic string, x kadm.PartitionDetail) []int32 {
	leaving := p.moving[topic][x.Partition].RemovingReplicas
	return slices.DeleteFunc(slices.Clone(x.Replicas), func(r int32) bool { return slices.Contains(leaving, r) })
}

// SetFactor plans a number of replicas for each partition of a topic. The preferred leader stays.
func (p *Plan) SetFactor(t kadm.TopicDetail, factor int) error {
	for _, x := range t.Partitions.Sorted() {
		was := p.replicas(t.Topic, x)
		replicas := slices.Clone(was)
		for len(replicas) > factor {
			last := len(replicas) - 1
			p.load[replicas[last]]--
			replicas = replicas[:last]
		}
		for len(replicas) < factor {
			next, ok := p.choose(replicas, -1)
			if !ok {
				return fmt.Errorf("%s cannot have %s: there are %s to choose from; start more brokers, or give a lower number", t.Topic,
					text.Count(factor, "replica"), text.Count(len(p.brokers), "active broker"))
			}
			replicas = append(replicas, next)
		}
		p.add(t.Topic, x.Partition, was, replicas)
	}
	return nil
}

// Leave plans the move of a topic's replicas from a broker to others.
func (p *Plan) Leave(t kadm.TopicDetail, broker int32) error {
	for _, x := range t.Partitions.Sorted() {
		was := p.replicas(t.Topic, x)
		at := slices.Index(was, broker)
		if at < 0 {
			continue
		}
		next, ok := p.choose(was, broker)
		if !ok {
			return fmt.Errorf("%s has %s, and there is no other active broker for the one on broker %d; start another broker, "+
				"or reduce the replicas with chronikctl topic alter %s --replication-factor",
				t.Topic, text.Count(len(was), "replica"), broker, t.Topic)
		}
		replicas := slices.Clone(was)
		replicas[at] = next
		p.load[broker]--
		p.add(t.Topic, x.Partition, was, replicas)
	}
	return nil
}

// choose returns the broker for one more replica, which is not the one to leave.
func (p *Plan) choose(replicas []int32, leave int32) (best int32, ok bool) {
	racks := map[string]bool{}
	for _, b := range p.brokers {
		if b.Rack != nil && b.NodeID != leave && slices.Contains(replicas, b.NodeID) {
			racks[*b.Rack] = true
		}
	}
	var free []kadm.BrokerDetail
	for _, b := range p.brokers {
		if b.NodeID != leave && !slices.Contains(replicas, b.NodeID) {
			free = append(free, b)
		}
	}
	if len(free) == 0 {
		return 0, false
	}
	taken := func(b *kadm.BrokerDetail) int {
		if b.Rack != nil && racks[*b.Rack] {
			return 1
		}
		return 0
	}
	chosen := slices.MinFunc(free, func(a, b kadm.BrokerDetail) int {
		return cmp.Or(taken(&a)-taken(&b), p.load[a.NodeID]-p.load[b.NodeID], int(a.NodeID)-int(b.NodeID))
	})
	p.load[chosen.NodeID]++
	return chosen.NodeID, true
}

func (p *Plan) add(topic string, partition int32, was, replicas []int32) {
	if slices.Equal(was, replicas) {
		return
	}
	p.moves.Assign(topic, partition, replicas)
	p.list = append(p.list, fmt.Sprintf("%s-%d from brokers %s to %s", topic, partition, text.Numbers(was), text.Numbers(replicas)))
	if p.count[topic]++; p.count[topic] == 1 {
		p.topics = append(p.topics, topic)
	}
}

// List returns the moves as text.
func (p *Plan) List() []string { return p.list }

// Request requests the moves, and adds the outcome of each topic. It does not wait for the copies.
func (p *Plan) Request(ctx context.Context, adm *kadm.Client, out *app.Outcomes) {
	if len(p.list) == 0 {
		return
	}
	answers, err := adm.AlterPartitionAssignments(ctx, p.moves)
	for _, topic := range p.topics {
		failed, message := err, ""
		for _, r := range answers[topic] {
			if r.Err != nil && failed == nil {
				failed, message = r.Err, r.ErrMessage
			}
		}
		if failed != nil {
			out.Refused(topic, "move partitions of "+topic, app.BrokerError(failed), message)
			continue
		}
		out.Done(topic, "moves %s", text.Count(p.count[topic], "partition"))
	}
}
