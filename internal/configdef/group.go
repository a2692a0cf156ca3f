package configdef

import (
	"fmt"
	"strings"
	"time"
)

// Names of the configs of single groups.
const (
	groupSession   = "consumer.session.timeout.ms"
	groupHeartbeat = "consumer.heartbeat.interval.ms"
)

// singleGroupDefs are the configs that a single consumer group (KIP-848) may set.
func singleGroupDefs() []*Def {
	return []*Def{
		topicDef(groupSession, Int, "45000", "The number of milliseconds without a heartbeat after which a member of the group is removed.",
			from("group."+groupSession), boundedByBroker(groupSession)),
		topicDef(groupHeartbeat, Int, "5000",
			"The interval in milliseconds at which the broker asks the members of the group to send heartbeats.",
			from("group."+groupHeartbeat), boundedByBroker(groupHeartbeat)),
	}
}

// boundedByBroker marks a config of a group that is limited by the broker's settings. CheckGroup
// checks the limits.
func boundedByBroker(name string) option {
	return func(d *Def) {
		_, bare, _ := strings.Cut(name, ".")
		atLeast(1)(d)
		d.Bounds = fmt.Sprintf("from group.consumer.min.%[1]s to group.consumer.max.%[1]s", bare)
	}
}

// Group has the settings of one consumer group (KIP-848).
type Group struct {
	Session, Heartbeat time.Duration
}

// GroupDef returns the config of single groups with a name, or nil if neither chronik nor Kafka has
// one; see Def.Supported.
func (r *Registry) GroupDef(name string) *Def { return r.group[name] }

// CheckGroup returns why a group may not have these configs within the limits of the broker, as an
// *Error, or nil.
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

// DescribeGroup resolves the configs of a group, sorted by name. It ignores Layers.Topic.
func (r *Registry) DescribeGroup(l Layers) []Value {
	l.Topic = nil
	values := make([]Value, 0, len(r.groups))
	for _, d := range r.groups {
		values = append(values, r.resolve(d, l))
	}
	return values
}

// ResolveGroup returns the typed settings of a group. It can't fail for configs that CheckGroup
// accepted.
func (r *Registry) ResolveGroup(l Layers) (Group, error) {
	f := reader{r: r, defs: r.group, l: l}
	g := Group{Session: milliseconds(f.value(groupSession).n), Heartbeat: milliseconds(f.value(groupHeartbeat).n)}
	return g, f.err
}
