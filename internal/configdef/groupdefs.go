package configdef

import (
	"slices"
	"strings"
)

// groupDefs are the broker configs of the group coordinator.
func groupDefs() []*Def {
	return []*Def{
		brokerDef("group.min.session.timeout.ms", Int, "6000",
			"The minimum session timeout, in milliseconds, that a member of a classic group may request.", atLeast(0)),
		brokerDef("group.max.session.timeout.ms", Int, "1800000",
			"The maximum session timeout, in milliseconds, that a member of a classic group may request.", atLeast(1)),
		brokerDef("group.initial.rebalance.delay.ms", Int, "3000",
			"The number of milliseconds that an empty classic group waits for more members after the first one joins. It waits again while more join, up to the rebalance timeout.",
			atLeast(0)),
		brokerDef("group.max.size", Int, "2147483647", "The maximum number of members of a classic group. "+
			"Further ones are refused, which bounds the memory and the time of a rebalance.", atLeast(1)),
		brokerDef("group.consumer.session.timeout.ms", Int, "45000",
			"The number of milliseconds without a heartbeat after which a member of a consumer group (KIP-848) is removed. "+
				"A lower one gives the partitions of a dead member to others sooner, and removes members that pause.", atLeast(1)),
		brokerDef("group.consumer.heartbeat.interval.ms", Int, "5000",
			"The interval in milliseconds at which the broker asks the members of consumer groups (KIP-848) to send heartbeats.",
			atLeast(1)),
		brokerDef("group.consumer.min.session.timeout.ms", Int, "45000",
			"The minimum consumer.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.max.session.timeout.ms", Int, "60000",
			"The maximum consumer.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.min.heartbeat.interval.ms", Int, "5000",
			"The minimum consumer.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.max.heartbeat.interval.ms", Int, "15000",
			"The maximum consumer.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.max.size", Int, "2147483647", "The maximum number of members of a consumer group (KIP-848). "+
			"Further ones are refused, which bounds the memory and the time of an assignment.", atLeast(1)),
		brokerDef("group.consumer.assignors", List, "uniform,range",
			"The assignors that consumer groups (KIP-848) may use: uniform and range. The first one is the default.",
			oneOf("uniform", "range"), checked(notEmpty)),
		brokerDef("group.consumer.migration.policy", String, "bidirectional",
			"Whether a group with members may change its protocol: upgrade to consumer, downgrade to classic, bidirectional, or disabled.",
			bounded("one of "+strings.Join(migrationPolicies(), ", "), migrationPolicy)),
	}
}

// streamsDefs are the broker configs of streams groups.
func streamsDefs() []*Def {
	return []*Def{
		brokerDef("group.streams.session.timeout.ms", Int, "45000",
			"The number of milliseconds without a heartbeat after which a member of a streams group (KIP-1071) is removed. "+
				"A lower one gives the tasks of a dead member to others sooner, and removes members that pause.", atLeast(1)),
		brokerDef("group.streams.heartbeat.interval.ms", Int, "5000",
			"The interval in milliseconds at which the broker asks the members of streams groups to send heartbeats. "+
				"With a lower one, members learn of changes sooner and send more requests.", atLeast(1)),
		brokerDef("group.streams.assignment.interval.ms", Int, "1000",
			"The minimum number of milliseconds between two assignments of a streams group's tasks. "+
				"With a larger one, members that join together share one assignment, and each waits longer for it.", atLeast(0)),
		brokerDef("group.streams.initial.rebalance.delay.ms", Int, "3000",
			"The number of milliseconds that a streams group waits for more members, when it was empty, before it assigns tasks.", atLeast(0)),
		brokerDef("group.streams.num.standby.replicas", Int, "0", "The number of standby tasks for each task with state. "+
			"A standby takes over without reading the changelog from its start, and needs space on its client's disk.", atLeast(0)),
		brokerDef("group.streams.max.standby.replicas", Int, "2",
			"The maximum streams.num.standby.replicas that can be set on a group.", atLeast(0)),
		brokerDef("group.streams.min.session.timeout.ms", Int, "45000",
			"The minimum streams.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.streams.max.session.timeout.ms", Int, "60000",
			"The maximum streams.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.streams.min.heartbeat.interval.ms", Int, "5000",
			"The minimum streams.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.streams.max.heartbeat.interval.ms", Int, "15000",
			"The maximum streams.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.streams.min.assignment.interval.ms", Int, "0",
			"The minimum streams.assignment.interval.ms that can be set on a group.", atLeast(0)),
		brokerDef("group.streams.max.assignment.interval.ms", Int, "15000",
			"The maximum streams.assignment.interval.ms that can be set on a group.", atLeast(0)),
		brokerDef("group.streams.max.size", Int, "2147483647", "The maximum number of members of a streams group. "+
			"Further ones are refused, which bounds the memory and the time of an assignment.", atLeast(1)),
	}
}

// check compares settings that must fit together.
func (g *Groups) check() error {
	const heartbeat, lowest = "group.consumer.heartbeat.interval.ms", "group.min.session.timeout.ms"
	switch {
	case g.MinSession > g.MaxSession:
		return &Error{lowest, lowest + " must be less than or equal to group.max.session.timeout.ms"}
	case g.ConsumerHeartbeat >= g.ConsumerSession:
		return &Error{heartbeat, heartbeat + " must be less than group.consumer.session.timeout.ms"}
	case g.MinConsumerSession > g.MaxConsumerSession:
		return atLeastThat("group.consumer.max.session.timeout.ms", "group.consumer.min.session.timeout.ms")
	case g.MinConsumerHeartbeat > g.MaxConsumerHeartbeat:
		return atLeastThat("group.consumer.max.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms")
	}
	if err := g.checkShareGroup(); err != nil {
		return err
	}
	if err := g.checkShareRecords(); err != nil {
		return err
	}
	return g.checkStreams()
}

func (g *Groups) checkStreams() error {
	const heartbeat, standbys = "group.streams.heartbeat.interval.ms", "group.streams.num.standby.replicas"
	switch {
	case g.Streams.Heartbeat >= g.Streams.Session:
		return &Error{heartbeat, heartbeat + " must be less than group.streams.session.timeout.ms"}
	case g.StreamsMin.Session > g.StreamsMax.Session:
		return atLeastThat("group.streams.max.session.timeout.ms", "group.streams.min.session.timeout.ms")
	case g.StreamsMin.Heartbeat > g.StreamsMax.Heartbeat:
		return atLeastThat("group.streams.max.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms")
	case g.StreamsMin.Interval > g.StreamsMax.Interval:
		return atLeastThat("group.streams.max.assignment.interval.ms", "group.streams.min.assignment.interval.ms")
	case g.Streams.Standbys > g.StreamsMax.Standbys:
		return atMostThat(standbys, "group.streams.max.standby.replicas")
	}
	return nil
}

// offsetDefs are the broker configs of committed offsets and of their topic.
func offsetDefs() []*Def {
	return []*Def{
		brokerDef("offset.metadata.max.bytes", Int, "4096",
			"The maximum number of bytes of metadata that may be committed with an offset. "+
				"All committed offsets are in memory, with their metadata.",
			importance(High), atLeast(0)),
		brokerDef("offsets.retention.minutes", Int, "10080",
			"The number of minutes for which committed offsets are kept: after the commit or, for an empty classic group, after its last member left. Offsets of subscribed topics do not expire.",
			importance(High), atLeast(1)),
		brokerDef("offsets.retention.check.interval.ms", Long, "600000",
			"The interval in milliseconds between two checks for expired offsets.",
			importance(High), atLeast(1)),
		brokerDef("offsets.topic.num.partitions", Int, "50",
			"The number of partitions with which __consumer_offsets is created. It must not change, because it determines the partition of each group.",
			importance(High), between(1, 10_000)),
		brokerDef("offsets.topic.replication.factor", Short, "3",
			"The number of replicas with which __consumer_offsets is created, or fewer if there are fewer brokers.", importance(High),
			atLeast(1)),
		brokerDef("offsets.topic.segment.bytes", Int, "104857600",
			"The segment.bytes with which __consumer_offsets is created; small segments are compacted and loaded sooner.", importance(High),
			atLeast(1<<20)),
	}
}

func notEmpty(d *Def, v value) error {
	if len(v.list) == 0 {
		return d.invalid("", "must have at least one entry")
	}
	return nil
}

func migrationPolicies() []string {
	return []string{"bidirectional", "disabled", "downgrade", "upgrade"}
}

// migrationPolicy accepts the policies in upper or lower case, as Kafka does.
func migrationPolicy(d *Def, v value) error {
	if !slices.Contains(migrationPolicies(), strings.ToLower(v.s)) {
		return d.invalid(v.s, "String must be one of (case insensitive): "+strings.ToUpper(strings.Join(migrationPolicies(), ", ")))
	}
	return nil
}
