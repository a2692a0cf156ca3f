package group

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/ctl/cli"
)

// described is a group with its members and how far it is.
type described struct {
	Group       string      `json:"group"`
	State       string      `json:"state"`
	Type        string      `json:"type"` // classic or consumer
	Assignor    string      `json:"assignor"`
	Epoch       *int32      `json:"epoch,omitempty"` // of a consumer group
	Coordinator int32       `json:"coordinator"`
	Lag         int64       `json:"lag"` // of all partitions where it is known
	Members     []member    `json:"members"`
	Partitions  []partition `json:"partitions"`
}

type member struct {
	ID         string             `json:"memberId"`
	Instance   string             `json:"instanceId,omitempty"`
	Client     string             `json:"clientId"`
	Host       string             `json:"host"`
	Assignment map[string][]int32 `json:"assignment"`
}

// partition is one that the group has committed an offset of, or that a member
// is assigned.
type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"` // nil for nothing
	Start     *int64 `json:"start"`     // nil where it is not known
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
	Member    string `json:"memberId,omitempty"`
	Client    string `json:"clientId,omitempty"`
	Host      string `json:"host,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
	Error     string `json:"error,omitempty"`
}

// load describes a group. One that does not exist is an error.
func load(ctx context.Context, a *cli.App, adm *kadm.Client, name string) (d *described, err error) {
	err = a.WhenReady(ctx, func() error {
		d, err = once(ctx, adm, name)
		return err
	})
	return d, err
}

// Standing is where a group stands, for who compares it with later.
type Standing struct {
	State     string
	Members   int
	Lag       int64
	Committed int64 // sum of all offsets: it grows while the group reads
}

// Look asks where a group stands.
func Look(ctx context.Context, a *cli.App, adm *kadm.Client, name string) (Standing, error) {
	d, err := load(ctx, a, adm, name)
	if err != nil {
		return Standing{}, err
	}
	s := Standing{State: d.State, Members: len(d.Members), Lag: d.Lag}
	for _, p := range d.Partitions {
		if p.Committed != nil {
			s.Committed += *p.Committed
		}
	}
	return s, nil
}

func once(ctx context.Context, adm *kadm.Client, name string) (*described, error) {
	d, err := members(ctx, adm, name)
	if err != nil {
		return nil, cli.Refused("group "+name, err, "")
	}
	offsets, err := adm.FetchOffsets(ctx, name)
	if err != nil {
		return nil, cli.Refused("offsets of group "+name, cli.Words(err), "")
	}
	if d.State == "Dead" && len(offsets) == 0 && len(d.Members) == 0 {
		return nil, cli.Refused("group "+name, kerr.GroupIDNotFound, "")
	}
	if err := d.partitions(ctx, adm, offsets); err != nil {
		return nil, err
	}
	return d, nil
}

// members asks under the new protocol first: a classic group is not known there.
func members(ctx context.Context, adm *kadm.Client, name string) (*described, error) {
	found, err := adm.DescribeConsumerGroups(ctx, name)
	g := found[name]
	if err == nil && g.Err == nil && g.Group != "" {
		epoch := g.Epoch
		d := &described{Group: name, State: g.State, Type: "consumer", Assignor: g.AssignorName, Epoch: &epoch, Coordinator: g.Coordinator.NodeID, Members: []member{}}
		for _, m := range g.Members {
			d.Members = append(d.Members, member{m.MemberID, text(m.InstanceID), m.ClientID, m.ClientHost, assignment(m.Assignment)})
		}
		return d, nil
	}
	if err = cli.Words(errors.Join(err, g.Err)); err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !cli.IsUnsupported(err) {
		return nil, err
	}
	return classic(ctx, adm, name)
}

func classic(ctx context.Context, adm *kadm.Client, name string) (*described, error) {
	found, err := adm.DescribeGroups(ctx, name)
	if err != nil {
		return nil, cli.Words(err)
	}
	g, ok := found[name]
	if !ok {
		return nil, kerr.GroupIDNotFound
	}
	if g.Err != nil {
		return nil, g.Err
	}
	d := &described{Group: name, State: g.State, Type: "classic", Assignor: g.Protocol, Coordinator: g.Coordinator.NodeID, Members: []member{}}
	for _, m := range g.Members {
		x := member{m.MemberID, text(m.InstanceID), m.ClientID, m.ClientHost, map[string][]int32{}}
		if c, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range c.Topics {
				x.Assignment[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
			}
		}
		d.Members = append(d.Members, x)
	}
	return d, nil
}

func assignment(s kadm.TopicsSet) map[string][]int32 {
	m := map[string][]int32{}
	for topic, partitions := range s {
		m[topic] = slices.Sorted(maps.Keys(partitions))
	}
	return m
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// partitions joins what is committed, what is assigned, and what there is.
func (d *described) partitions(ctx context.Context, adm *kadm.Client, offsets kadm.OffsetResponses) error {
	type place struct {
		topic     string
		partition int32
	}
	all := map[place]*partition{}
	at := func(topic string, p int32) *partition {
		k := place{topic, p}
		if all[k] == nil {
			all[k] = &partition{Topic: topic, Partition: p}
		}
		return all[k]
	}
	for _, o := range offsets.Sorted() {
		p := at(o.Topic, o.Partition)
		switch {
		case o.Err != nil:
			p.Error = o.Err.Error()
		case o.At >= 0:
			p.Committed, p.Metadata = &o.At, o.Metadata
		}
	}
	for _, m := range d.Members {
		for topic, list := range m.Assignment {
			for _, n := range list {
				p := at(topic, n)
				p.Member, p.Client, p.Host = m.ID, m.Client, m.Host
			}
		}
	}
	topics := map[string]bool{}
	for k := range all {
		topics[k.topic] = true
	}
	if err := ends(ctx, adm, slices.Sorted(maps.Keys(topics)), at); err != nil {
		return err
	}
	d.Partitions = []partition{}
	for _, p := range all {
		if p.measure(); p.Lag != nil {
			d.Lag += *p.Lag
		}
		d.Partitions = append(d.Partitions, *p)
	}
	slices.SortFunc(d.Partitions, func(x, y partition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return nil
}

// ends fills in where partitions start and end. A topic that was deleted keeps
// its offsets for a while: it has an error, the others not.
func ends(ctx context.Context, adm *kadm.Client, topics []string, at func(string, int32) *partition) error {
	if len(topics) == 0 {
		return nil
	}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return cli.Refused("start offsets", cli.Words(err), "")
	}
	latest, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return cli.Refused("end offsets", cli.Words(err), "")
	}
	latest.Each(func(o kadm.ListedOffset) {
		if o.Partition < 0 {
			return // the topic's own error, met again below
		}
		p := at(o.Topic, o.Partition)
		if o.Err != nil {
			p.Error = o.Err.Error()
			return
		}
		end := o.Offset
		p.End = &end
		if s, ok := starts.Lookup(o.Topic, o.Partition); ok && s.Err == nil {
			start := s.Offset
			p.Start = &start
		}
	})
	return nil
}

// measure is the lag: without a commit, all that there is.
func (p *partition) measure() {
	if p.End == nil || p.Start == nil {
		if p.Error == "" {
			p.Error = "the topic or partition does not exist any more"
		}
		return
	}
	from := *p.Start
	if p.Committed != nil {
		from = max(from, *p.Committed)
	}
	lag := max(0, *p.End-from)
	p.Lag = &lag
}
