package group

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/ctl/app"
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
func load(ctx context.Context, a *app.App, adm *kadm.Client, name string) (*described, error) {
	found, failed := loadAll(ctx, a, adm, []string{name})
	return found[name], failed[name]
}

// loadAll describes groups, with as many requests as for one. Each name is in found or
// in failed.
func loadAll(ctx context.Context, a *app.App, adm *kadm.Client, names []string) (found map[string]*described, failed map[string]error) {
	found, failed = map[string]*described{}, map[string]error{}
	left := names
	_ = a.WhenReady(ctx, func() (again error) { // failed has its error
		now, errs := once(ctx, adm, left)
		left = nil
		for name, d := range now {
			found[name] = d
			delete(failed, name)
		}
		for name, err := range errs {
			failed[name] = err
			if app.NotReady(err) {
				again, left = err, append(left, name)
			}
		}
		return again
	})
	return found, failed
}

// Standing is where a group stands, for who compares it with later.
type Standing struct {
	State     string
	Members   int
	Lag       int64
	Committed int64 // sum of all offsets: it grows while the group reads
}

// Describe asks where a group stands.
func Describe(ctx context.Context, a *app.App, adm *kadm.Client, name string) (Standing, error) {
	d, err := load(ctx, a, adm, name)
	if err != nil {
		return Standing{}, err
	}
	return d.standing(), nil
}

// DescribeAll asks where groups stand. Each name is in found or in failed.
func DescribeAll(ctx context.Context, a *app.App, adm *kadm.Client, names []string) (found map[string]Standing, failed map[string]error) {
	found = map[string]Standing{}
	if len(names) == 0 {
		return found, nil
	}
	all, failed := loadAll(ctx, a, adm, names)
	for name, d := range all {
		found[name] = d.standing()
	}
	return found, failed
}

func (d *described) standing() Standing {
	s := Standing{State: d.State, Members: len(d.Members), Lag: d.Lag}
	for _, p := range d.Partitions {
		if p.Committed != nil {
			s.Committed += *p.Committed
		}
	}
	return s
}

// once asks for groups once.
func once(ctx context.Context, adm *kadm.Client, names []string) (found map[string]*described, failed map[string]error) {
	found, failed = members(ctx, adm, names)
	offsets := adm.FetchManyOffsets(ctx, slices.Sorted(maps.Keys(found))...)
	topics := map[string]bool{}
	for name, d := range found {
		o := offsets[name]
		switch {
		case o.Err != nil:
			failed[name] = app.Refused("offsets of group "+name, app.Words(o.Err), "")
		case d.State == "Dead" && len(o.Fetched) == 0 && len(d.Members) == 0:
			failed[name] = app.Refused("group "+name, kerr.GroupIDNotFound, "")
		}
		for topic := range d.gather(o.Fetched) {
			topics[topic] = true
		}
	}
	e, err := askEnds(ctx, adm, slices.Sorted(maps.Keys(topics)))
	for name, d := range found {
		if err != nil && failed[name] == nil {
			failed[name] = err
		}
		d.measure(e)
	}
	maps.DeleteFunc(found, func(name string, _ *described) bool { return failed[name] != nil })
	return found, failed
}

// members asks under the new protocol first: classic groups are not known there.
func members(ctx context.Context, adm *kadm.Client, names []string) (found map[string]*described, failed map[string]error) {
	found, failed = map[string]*described{}, map[string]error{}
	answers, err := adm.DescribeConsumerGroups(ctx, names...)
	var rest []string
	for _, name := range names {
		g := answers[name]
		if err == nil && g.Err == nil && g.Group != "" {
			epoch := g.Epoch
			d := &described{Group: name, State: g.State, Type: "consumer", Assignor: g.AssignorName, Epoch: &epoch,
				Coordinator: g.Coordinator.NodeID, Members: []member{}}
			for _, m := range g.Members {
				d.Members = append(d.Members, member{m.MemberID, orEmpty(m.InstanceID), m.ClientID, m.ClientHost, assignment(m.Assignment)})
			}
			found[name] = d
			continue
		}
		why := app.Words(errors.Join(err, g.Err))
		if why != nil && !errors.Is(why, kerr.GroupIDNotFound) && !app.IsUnsupported(why) {
			failed[name] = app.Refused("group "+name, why, "")
			continue
		}
		rest = append(rest, name)
	}
	classic(ctx, adm, rest, found, failed)
	return found, failed
}

func classic(ctx context.Context, adm *kadm.Client, names []string, found map[string]*described, failed map[string]error) {
	if len(names) == 0 {
		return // the client would describe all groups
	}
	answers, err := adm.DescribeGroups(ctx, names...)
	for _, name := range names {
		g, ok := answers[name]
		switch {
		case ok && g.Err != nil:
			failed[name] = app.Refused("group "+name, g.Err, "")
		case !ok && err != nil:
			failed[name] = app.Refused("group "+name, app.Words(err), "")
		case !ok:
			failed[name] = app.Refused("group "+name, kerr.GroupIDNotFound, "")
		default:
			found[name] = classicOf(name, g)
		}
	}
}

func classicOf(name string, g kadm.DescribedGroup) *described {
	d := &described{Group: name, State: g.State, Type: "classic", Assignor: g.Protocol, Coordinator: g.Coordinator.NodeID, Members: []member{}}
	for _, m := range g.Members {
		x := member{m.MemberID, orEmpty(m.InstanceID), m.ClientID, m.ClientHost, map[string][]int32{}}
		if c, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range c.Topics {
				x.Assignment[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
			}
		}
		d.Members = append(d.Members, x)
	}
	return d
}

func assignment(s kadm.TopicsSet) map[string][]int32 {
	m := map[string][]int32{}
	for topic, partitions := range s {
		m[topic] = slices.Sorted(maps.Keys(partitions))
	}
	return m
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// gather joins what is committed and what is assigned, and returns the topics of it.
func (d *described) gather(offsets kadm.OffsetResponses) (topics map[string]bool) {
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
	topics = map[string]bool{}
	d.Partitions = []partition{}
	for k, p := range all {
		topics[k.topic] = true
		d.Partitions = append(d.Partitions, *p)
	}
	slices.SortFunc(d.Partitions, func(x, y partition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return topics
}

// ends are where the partitions of topics start and end.
type ends struct{ starts, latest kadm.ListedOffsets }

func askEnds(ctx context.Context, adm *kadm.Client, topics []string) (e ends, err error) {
	if len(topics) == 0 {
		return e, nil
	}
	if e.starts, err = adm.ListStartOffsets(ctx, topics...); err != nil {
		return e, app.Refused("start offsets", app.Words(err), "")
	}
	if e.latest, err = adm.ListEndOffsets(ctx, topics...); err != nil {
		return e, app.Refused("end offsets", app.Words(err), "")
	}
	return e, nil
}

// measure fills in where the partitions start and end, and adds up the lag. A topic that
// was deleted keeps its offsets for a while: it has an error, the others not.
func (d *described) measure(e ends) {
	for i := range d.Partitions {
		p := &d.Partitions[i]
		if o, ok := e.latest.Lookup(p.Topic, p.Partition); ok && o.Err != nil {
			p.Error = o.Err.Error()
		} else if ok {
			p.End = &o.Offset
			if s, ok := e.starts.Lookup(p.Topic, p.Partition); ok && s.Err == nil {
				p.Start = &s.Offset
			}
		}
		if p.measure(); p.Lag != nil {
			d.Lag += *p.Lag
		}
	}
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
