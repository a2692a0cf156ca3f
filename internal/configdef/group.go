package configdef

import (
	"fmt"
	"strings"
	"time"
)

// Names of the configs that a single group may have.
const (
	groupSession   = "consumer.session.timeout.ms"
	groupHeartbeat = "consumer.heartbeat.interval.ms"
)

// singleGroupDefs are the configs that a single consumer group (KIP-848) may have
// for itself.
func singleGroupDefs() []*Def {
	return []*Def{
		topicDef(groupSession, Int, "45000", "After how many milliseconds without a heartbeat a member of the group is out of it.",
			from("group."+groupSession), withinBroker(groupSession)),
		topicDef(groupHeartbeat, Int, "5000", "How often, in milliseconds, members of the group are told to send heartbeats.",
			from("group."+groupHeartbeat), withinBroker(groupHeartbeat)),
	}
}

// withinBroker is for a config of a group that the broker's settings bound, which
// CheckGroup knows. By itself it is a time.
func withinBroker(name string) option {
	return func(d *Def) {
		_, bare, _ := strings.Cut(name, ".")
		atLeast(1)(d)
		d.Bounds = fmt.Sprintf("from group.consumer.min.%[1]s to group.consumer.max.%[1]s", bare)
	}
}

// Group is what holds for one consumer group (KIP-848).
type Group struct {
	Session, Heartbeat time.Duration
}

// GroupDef is the config of single groups of that name, nil where neither chronik
// nor Kafka has one; see Def.Honoured.
func (r *Registry) GroupDef(name string) *Def { return r.group[name] }

// CheckGroup says whether a group may have these configs, within the limits of the
// broker. The error is an *Error.
func (r *Registry) CheckGroup(set map[string]string, limits *Groups) error {
	if err := checkSet(r.group, set, "group"); err != nil {
		return err
	}
	g := Group{Session: limits.ConsumerSession, Heartbeat: limits.ConsumerHeartbeat}
	for _, c := range []struct {
		name     string
		value    *time.Duration
		low      time.Duration
		high     time.Duration
		min, max string
	}{
		{groupSession, &g.Session, limits.MinConsumerSession, limits.MaxConsumerSession,
			"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
		{groupHeartbeat, &g.Heartbeat, limits.MinConsumerHeartbeat, limits.MaxConsumerHeartbeat,
			"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	} {
		raw, ok := set[c.name]
		if !ok {
			continue
		}
		v, err := r.group[c.name].parse(raw)
		if err != nil {
			return err
		}
		*c.value = milliseconds(v.n)
		switch {
		case *c.value < c.low:
			return atLeastThat(c.name, c.min)
		case *c.value > c.high:
			return &Error{c.name, fmt.Sprintf("%s must be less than or equal to %s", c.name, c.max)}
		}
	}
	if len(set) > 0 && g.Heartbeat >= g.Session {
		return &Error{groupHeartbeat, fmt.Sprintf("%s must be less than %s", groupHeartbeat, groupSession)}
	}
	return nil
}

func atLeastThat(name, low string) error {
	return &Error{name, fmt.Sprintf("%s must be greater than or equal to %s", name, low)}
}

// DescribeGroup resolves the configs of a group, sorted by name. Layers.Topic is
// not looked at.
func (r *Registry) DescribeGroup(l Layers) []Value {
	l.Topic = nil
	values := make([]Value, 0, len(r.groups))
	for _, d := range r.groups {
		values = append(values, r.resolve(d, l))
	}
	return values
}

// ResolveGroup builds the typed configs of a group. What CheckGroup accepted cannot
// fail here.
func (r *Registry) ResolveGroup(l Layers) (Group, error) {
	f := reader{r: r, defs: r.group, l: l}
	g := Group{Session: milliseconds(f.value(groupSession).n), Heartbeat: milliseconds(f.value(groupHeartbeat).n)}
	return g, f.err
}
