package configdef

import (
	"slices"
	"strings"
)

// groupDefs are the broker configs of the group coordinator.
func groupDefs() []*Def {
	return []*Def{
		brokerDef("group.min.session.timeout.ms", Int, "6000",
			"The shortest session timeout, in milliseconds, that a member of a classic group may ask for.", atLeast(1)),
		brokerDef("group.max.session.timeout.ms", Int, "1800000",
			"The longest session timeout, in milliseconds, that a member of a classic group may ask for.", atLeast(1)),
		brokerDef("group.initial.rebalance.delay.ms", Int, "3000",
			"How many milliseconds an empty classic group waits for more members after one has joined; as often as others come, up to the rebalance timeout.",
			atLeast(0)),
		brokerDef("group.max.size", Int, "2147483647", "The most members that a classic group may have.", atLeast(1)),
		brokerDef("group.consumer.session.timeout.ms", Int, "45000",
			"After how many milliseconds without a heartbeat a member of a consumer group (KIP-848) is out of it.", atLeast(1)),
		brokerDef("group.consumer.heartbeat.interval.ms", Int, "5000",
			"How often, in milliseconds, members of consumer groups (KIP-848) are told to send heartbeats.", atLeast(1)),
		brokerDef("group.consumer.min.session.timeout.ms", Int, "45000",
			"The least consumer.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.max.session.timeout.ms", Int, "60000",
			"The largest consumer.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.min.heartbeat.interval.ms", Int, "5000",
			"The least consumer.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.max.heartbeat.interval.ms", Int, "15000",
			"The largest consumer.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.consumer.max.size", Int, "2147483647", "The most members that a consumer group (KIP-848) may have.", atLeast(1)),
		brokerDef("group.consumer.assignors", List, "uniform,range",
			"The assignors that consumer groups (KIP-848) may use, of uniform and range. The first is the default.",
			oneOf("uniform", "range"), checked(notEmpty)),
		brokerDef("group.consumer.migration.policy", String, "bidirectional",
			"Whether a group that has members may go from one protocol to the other: upgrade to consumer, downgrade to classic, bidirectional, or disabled.",
			bounded("one of "+strings.Join(migrationPolicies(), ", "), migrationPolicy)),
	}
}

// check holds together what only makes sense together.
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
	return nil
}

// offsetDefs are the broker configs of committed offsets and their topic.
func offsetDefs() []*Def {
	return []*Def{
		brokerDef("offset.metadata.max.bytes", Int, "4096", "The most bytes of text that may be committed with an offset.",
			importance(High), atLeast(0)),
		brokerDef("offsets.retention.minutes", Int, "10080",
			"How many minutes committed offsets are kept once no member of the group can be reading the topic.", importance(High), atLeast(1)),
		brokerDef("offsets.retention.check.interval.ms", Long, "600000", "How often, in milliseconds, offsets are looked for whose retention is over.",
			importance(High), atLeast(1)),
		brokerDef("offsets.topic.num.partitions", Int, "50",
			"The number of partitions that __consumer_offsets is created with. Groups are bound to partitions by this number, so it stays as it is.",
			importance(High), between(1, 10_000)),
		brokerDef("offsets.topic.replication.factor", Short, "3",
			"The number of replicas that __consumer_offsets is created with, or fewer where there are fewer brokers.", importance(High), atLeast(1)),
		brokerDef("offsets.topic.segment.bytes", Int, "104857600",
			"The segment.bytes that __consumer_offsets is created with; small ones are compacted and loaded sooner.", importance(High), atLeast(1<<20)),
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

// migrationPolicy accepts the policies in any case of letters, as Kafka does.
func migrationPolicy(d *Def, v value) error {
	if !slices.Contains(migrationPolicies(), strings.ToLower(v.s)) {
		return d.invalid(v.s, "String must be one of (case insensitive): "+strings.ToUpper(strings.Join(migrationPolicies(), ", ")))
	}
	return nil
}
