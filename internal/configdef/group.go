package configdef

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Names of the configs of single groups.
const (
	groupSession     = "consumer.session.timeout.ms"
	groupHeartbeat   = "consumer.heartbeat.interval.ms"
	streamsSession   = "streams.session.timeout.ms"
	streamsHeartbeat = "streams.heartbeat.interval.ms"
	streamsInterval  = "streams.assignment.interval.ms"
	streamsDelay     = "streams.initial.rebalance.delay.ms"
	streamsStandbys  = "streams.num.standby.replicas"
)

// singleGroupDefs are the configs that a single group may set: a consumer group (KIP-848) those
// that begin with consumer, a streams group (KIP-1071) those that begin with streams, a share group
// (KIP-932) those that begin with share or chronik.share.
func singleGroupDefs() []*Def {
	const session = "The number of milliseconds without a heartbeat after which a member of the group is removed."
	const heartbeat = "The interval in milliseconds at which the broker asks the members of the group to send heartbeats."
	return append([]*Def{
		topicDef(groupSession, Int, "45000", session, from("group."+groupSession), boundedByBroker(groupSession)),
		topicDef(groupHeartbeat, Int, "5000", heartbeat, from("group."+groupHeartbeat), boundedByBroker(groupHeartbeat)),
		topicDef(streamsSession, Int, "45000", session, from("group."+streamsSession), boundedByBroker(streamsSession)),
		topicDef(streamsHeartbeat, Int, "5000", heartbeat, from("group."+streamsHeartbeat), boundedByBroker(streamsHeartbeat)),
		topicDef(streamsInterval, Int, "1000", "The minimum number of milliseconds between two assignments of the group's tasks.",
			from("group."+streamsInterval), boundedByBroker(streamsInterval)),
		topicDef(streamsDelay, Int, "3000",
			"The number of milliseconds that the group waits for more members, when it was empty, before it assigns tasks.",
			from("group."+streamsDelay), atLeast(0)),
		topicDef(streamsStandbys, Int, "0", "The number of standby tasks for each task with state.",
			from("group."+streamsStandbys), atLeast(0), func(d *Def) { d.Bounds = "from 0 to group.streams.max.standby.replicas" }),
	}, slices.Concat(singleShareGroupDefs(), singleShareRecordDefs(), singleDeadLetterDefs())...)
}

// boundedByBroker marks a config of a group that is limited by the broker's settings. CheckGroup
// checks the limits.
func boundedByBroker(name string) option {
	return func(d *Def) {
		kind, bare, _ := strings.Cut(name, ".")
		low := int64(1)
		if name == streamsInterval || name == shareInterval {
			low = 0
		}
		atLeast(low)(d)
		d.Bounds = fmt.Sprintf("from group.%[1]s.min.%[2]s to group.%[1]s.max.%[2]s", kind, bare)
	}
}

// Group has the settings of one group.
type Group struct {
	Session, Heartbeat time.Duration // of a consumer group (KIP-848)
	Streams            Streams
	Share              ShareRecords
	ShareGroup         ShareGroup
}

// Streams has the settings of a streams group (KIP-1071).
type Streams struct {
	Session, Heartbeat time.Duration
	Interval           time.Duration // between two assignments
	InitialDelay       time.Duration // of the first assignment of a group that was empty
	Standbys           int32         // standby tasks for each task with state
}

// GroupDef returns the config of single groups with a name, or nil if neither chronik nor Kafka has
// one; see Def.Supported.
func (r *Registry) GroupDef(name string) *Def { return r.group[name] }

// limit is a config of a group that the broker's settings limit.
type limit struct {
	name     string
	value    *time.Duration
	low      time.Duration
	high     time.Duration
	min, max string // the broker's settings
}

// CheckGroup returns why a group may not have these configs within the limits of the broker, as an
// *Error, or nil.
func (r *Registry) CheckGroup(set map[string]string, limits *Groups) error {
	if err := checkSet(r.group, set, "group"); err != nil {
		return err
	}
	g := Group{Session: limits.ConsumerSession, Heartbeat: limits.ConsumerHeartbeat, Streams: limits.Streams}
	for _, c := range []limit{
		{groupSession, &g.Session, limits.MinConsumerSession, limits.MaxConsumerSession,
			"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
		{groupHeartbeat, &g.Heartbeat, limits.MinConsumerHeartbeat, limits.MaxConsumerHeartbeat,
			"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
		{streamsSession, &g.Streams.Session, limits.StreamsMin.Session, limits.StreamsMax.Session,
			"group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
		{streamsHeartbeat, &g.Streams.Heartbeat, limits.StreamsMin.Heartbeat, limits.StreamsMax.Heartbeat,
			"group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
		{streamsInterval, &g.Streams.Interval, limits.StreamsMin.Interval, limits.StreamsMax.Interval,
			"group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	} {
		if err := r.checkLimit(set, c); err != nil {
			return err
		}
	}
	if err := r.checkShareGroup(set, limits); err != nil {
		return err
	}
	if err := r.checkShareRecords(set, limits); err != nil {
		return err
	}
	if raw, ok := set[streamsStandbys]; ok {
		v, err := r.group[streamsStandbys].parse(raw)
		if err != nil {
			return err
		}
		if v.n > int64(limits.StreamsMax.Standbys) {
			return atMostThat(streamsStandbys, "group.streams.max.standby.replicas")
		}
	}
	switch {
	case len(set) > 0 && g.Heartbeat >= g.Session:
		return &Error{groupHeartbeat, fmt.Sprintf("%s must be less than %s", groupHeartbeat, groupSession)}
	case len(set) > 0 && g.Streams.Heartbeat >= g.Streams.Session:
		return &Error{streamsSession, fmt.Sprintf("%s must be greater than %s", streamsSession, streamsHeartbeat)}
	}
	return nil
}

// checkLimit checks one config, and stores its value.
func (r *Registry) checkLimit(set map[string]string, c limit) error {
	raw, ok := set[c.name]
	if !ok {
		return nil
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
		return atMostThat(c.name, c.max)
	}
	return nil
}

func atMostThat(name, high string) error {
	return &Error{name, fmt.Sprintf("%s must be less than or equal to %s", name, high)}
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
	return Group{
		Session: milliseconds(f.value(groupSession).n), Heartbeat: milliseconds(f.value(groupHeartbeat).n), Streams: f.streams(""),
		Share:      f.shareRecords(""),
		ShareGroup: f.shareGroup(""),
	}, f.err
}

// streams reads the settings of streams groups whose names begin with prefix.
func (f *reader) streams(prefix string) Streams {
	return Streams{
		Session:      milliseconds(f.value(prefix + streamsSession).n),
		Heartbeat:    milliseconds(f.value(prefix + streamsHeartbeat).n),
		Interval:     milliseconds(f.value(prefix + streamsInterval).n),
		InitialDelay: milliseconds(f.value(prefix + streamsDelay).n),
		Standbys:     int32(f.value(prefix + streamsStandbys).n),
	}
}
