package group

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/view"
)

// described is a group with its members and its position in each partition.
type described struct {
	Group       string      `json:"group"`
	State       string      `json:"state"`
	Type        string      `json:"type"` // classic, consumer, streams or share
	Assignor    string      `json:"assignor"`
	Epoch       *int32      `json:"epoch,omitempty"` // of a consumer, streams or share group
	Coordinator int32       `json:"coordinator"`
	Lag         int64       `json:"lag"` // sum over the partitions with a known lag
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

// partition is a partition of one of the group's topics. A topic is the group's if the group has a
// committed offset in it, or a member is assigned a partition of it. Of a share group, Committed is
// the start offset, and the lag does not have the records after it that are finished.
type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"` // nil if none is committed
	Start     *int64 `json:"start"`     // nil if unknown
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
	Member    string `json:"memberId,omitempty"`
	Client    string `json:"clientId,omitempty"`
	Host      string `json:"host,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
	Share     *share `json:"share,omitempty"`
	Error     string `json:"error,omitempty"`

	unread bool // neither committed nor assigned
	shared bool // of a share group: its lag is the broker's
}

// load describes a group. A group that does not exist is an error.
func load(ctx context.Context, a *app.App, adm *kadm.Client, name string) (*described, error) {
	found, failed := loadAll(ctx, a, adm, []string{name})
	return found[name], failed[name]
}

// loadAll describes groups with as many requests as for one group. Each name is in found or in
// failed.
func loadAll(ctx context.Context, a *app.App, adm *kadm.Client, names []string) (found map[string]*described, failed map[string]error) {
	found, failed = map[string]*described{}, map[string]error{}
	left := names
	_ = a.WhenReady(ctx, func() (again error) { // failed has the error
		now, errs := once(ctx, a, adm, left)
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

// Progress is the position of a group, for comparison with a later one.
type Progress struct {
	State     string
	Members   int
	Lag       int64
	Committed int64 // sum of all committed offsets: it grows while the group reads
}

// Describe returns the position of a group.
func Describe(ctx context.Context, a *app.App, adm *kadm.Client, name string) (Progress, error) {
	d, err := load(ctx, a, adm, name)
	if err != nil {
		return Progress{}, err
	}
	return d.standing(), nil
}

// DescribeAll returns the positions of groups. Each name is in found or in failed.
func DescribeAll(ctx context.Context, a *app.App, adm *kadm.Client, names []string) (found map[string]Progress, failed map[string]error) {
	found = map[string]Progress{}
	if len(names) == 0 {
		return found, nil
	}
	all, failed := loadAll(ctx, a, adm, names)
	for name, d := range all {
		found[name] = d.standing()
	}
	return found, failed
}

func (d *described) standing() Progress {
	s := Progress{State: d.State, Members: len(d.Members), Lag: d.Lag}
	for _, p := range d.Partitions {
		if p.Committed != nil {
			s.Committed += *p.Committed
		}
	}
	return s
}

// once describes groups without retrying.
func once(ctx context.Context, a *app.App, adm *kadm.Client, names []string) (found map[string]*described, failed map[string]error) {
	found, failed = members(ctx, adm, names)
	streams(ctx, a, found, failed)
	var offsets kadm.FetchOffsetsResponses
	if committed := slices.Sorted(maps.Keys(found)); len(committed) > 0 {
		offsets = adm.FetchManyOffsets(ctx, committed...)
	}
	shares(ctx, a, adm, found, failed)
	topics := map[string]bool{}
	for name, d := range found {
		if d.Type == typeShare {
			for _, p := range d.Partitions {
				topics[p.Topic] = true
			}
			continue
		}
		o := offsets[name]
		switch {
		case o.Err != nil:
			failed[name] = app.Refused("offsets of group "+name, app.Needs(app.BrokerError(o.Err), app.OnGroup("describe", name)), "")
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

// members describes groups, first as consumer groups (KIP-848), then as classic groups those that
// are unknown there.
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
				d.Members = append(d.Members, member{m.MemberID, app.OrEmpty(m.InstanceID), m.ClientID, m.ClientHost,
					assignment(m.Assignment)})
			}
			found[name] = d
			continue
		}
		why := app.BrokerError(errors.Join(err, g.Err))
		if why != nil && !errors.Is(why, kerr.GroupIDNotFound) && !app.IsUnsupported(why) {
			failed[name] = app.Refused("group "+name, app.Needs(why, app.OnGroup("describe", name)), "")
			continue
		}
		rest = append(rest, name)
	}
	classic(ctx, adm, rest, found, failed)
	return found, failed
}

func classic(ctx context.Context, adm *kadm.Client, names []string, found map[string]*described, failed map[string]error) {
	if len(names) == 0 {
		return // without names the client describes all groups
	}
	answers, err := adm.DescribeGroups(ctx, names...)
	for _, name := range names {
		g, ok := answers[name]
		switch {
		case ok && g.Err != nil:
			failed[name] = app.Refused("group "+name, app.Needs(g.Err, app.OnGroup("describe", name)), "")
		case !ok && err != nil:
			failed[name] = app.Refused("group "+name, app.BrokerError(err), "")
		case !ok:
			failed[name] = app.Refused("group "+name, kerr.GroupIDNotFound, "")
		default:
			found[name] = classicOf(name, g)
		}
	}
}

func classicOf(name string, g kadm.DescribedGroup) *described {
	d := &described{Group: name, State: g.State, Type: "classic", Assignor: g.Protocol, Coordinator: g.Coordinator.NodeID,
		Members: []member{}}
	for _, m := range g.Members {
		x := member{m.MemberID, app.OrEmpty(m.InstanceID), m.ClientID, m.ClientHost, map[string][]int32{}}
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

// gather joins committed and assigned partitions. It returns their topics.
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
	d.sort()
	return topics
}

func (d *described) sort() {
	sorts.Sort(d.Partitions, func(x, y partition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
}

// ends holds the start and end offsets of topics.
type ends struct{ starts, latest kadm.ListedOffsets }

func askEnds(ctx context.Context, adm *kadm.Client, topics []string) (e ends, err error) {
	if len(topics) == 0 {
		return e, nil
	}
	if e.starts, err = adm.ListStartOffsets(ctx, topics...); err != nil {
		return e, app.Refused("start offsets", app.BrokerError(err), "")
	}
	if e.latest, err = adm.ListEndOffsets(ctx, topics...); err != nil {
		return e, app.Refused("end offsets", app.BrokerError(err), "")
	}
	return e, nil
}

// measure sets the start and end offsets of the partitions and sums the lag. The offsets of a
// deleted topic remain for a while: only its partitions get an error.
func (d *described) measure(e ends) {
	d.addUnread(e)
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

// addUnread adds the partitions of the group's topics without a committed offset or a member. Their
// lag is unknown: the group may not want to read them.
func (d *described) addUnread(e ends) {
	known := map[string]map[int32]bool{}
	for _, p := range d.Partitions {
		if known[p.Topic] == nil {
			known[p.Topic] = map[int32]bool{}
		}
		known[p.Topic][p.Partition] = true
	}
	for topic, partitions := range known {
		for i, o := range e.latest[topic] {
			if i >= 0 && !partitions[i] && o.Err == nil {
				d.Partitions = append(d.Partitions, partition{Topic: topic, Partition: i, unread: true})
			}
		}
	}
	d.sort()
}

// measure sets the lag. Without a committed offset it counts from the start.
func (p *partition) measure() {
	if p.End == nil || p.Start == nil {
		if p.Error == "" {
			p.Error = "the topic or partition no longer exists"
		}
		return
	}
	if p.unread || p.shared {
		return
	}
	from := *p.Start
	if p.Committed != nil {
		from = *p.Committed
	}
	lag := view.LagBetween(from, 0, *p.Start, *p.End)
	p.Lag = &lag
}
