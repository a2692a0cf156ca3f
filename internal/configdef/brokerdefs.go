package configdef

import (
	"math"

	"github.com/chronik-io/chronik/pkg/durability"
)

// brokerDefs are the broker configs that chronik reads. The defaults of topic
// configs can be changed dynamically, for one broker or for all, because topics
// resolve through them; everything else is read once at the start.
func brokerDefs(opts Options, topics []*Def) []*Def {
	defs := identityDefs()
	defs = append(defs, networkDefs()...)
	defs = append(defs, topicPolicyDefs()...)
	defs = append(defs, groupDefs()...)
	defs = append(defs, offsetDefs()...)
	defs = append(defs, cleaningDefs()...)
	defs = append(defs,
		brokerDef("producer.id.expiration.ms", Int, "86400000",
			"After how many milliseconds without a produce a partition forgets an idempotent producer.",
			importance(Low), atLeast(1)),
		brokerDef(ProduceProfile, String, durability.DefaultPreset,
			"How much of what clients produce may wait in the broker, altogether and per connection, before their connections are not read any more.",
			oneOf(opts.ProducePresets...)),
	)
	for _, t := range topics {
		defs = append(defs, topicDefault(t))
	}
	return append(defs, otherUnits()...)
}

// ProduceProfile is the name of the broker config that chooses a
// durability.ProducePreset.
const ProduceProfile = "chronik.produce.profile"

func identityDefs() []*Def {
	nonNegative := atLeast(0)
	return []*Def{
		brokerDef("node.id", Int, "1", "The id of this broker in its cluster. It must not change while the data directory lives.",
			importance(High), nonNegative, from("broker.id")),
		brokerDef("broker.id", Int, "", "The old name of node.id.",
			importance(High), nonNegative, from("node.id"), noDefault),
		brokerDef("broker.rack", String, "", "The rack, zone or host of this broker, as clients are told.", noDefault),
		brokerDef("log.dirs", List, "", "The directories that hold the logs; by default one below the data directory.",
			importance(High), noDefault),
		brokerDef("journal.dirs", List, "",
			"For each entry of log.dirs, in that order, the directory of its journal; by default the log directory itself.",
			importance(High), noDefault),
	}
}

func networkDefs() []*Def {
	return []*Def{
		brokerDef("listeners", List, "PLAINTEXT://127.0.0.1:9092", "Where the broker listens: NAME://HOST:PORT, comma-separated.",
			importance(High)),
		brokerDef("advertised.listeners", List, "",
			"For each listener the address that clients are told; by default the one that the client itself dialled.",
			importance(High), noDefault),
		brokerDef("socket.request.max.bytes", Int, "104857600", "The largest request in bytes. A larger one closes its connection.",
			importance(High), atLeast(1)),
		brokerDef("max.connections", Int, "2147483647", "How many connections the broker accepts at a time. By default as many as there are descriptors for beside those of segments.", atLeast(1)),
		brokerDef("max.connections.per.ip", Int, "2147483647", "How many connections the broker accepts at a time from one address.", atLeast(1)),
		brokerDef("connections.max.idle.ms", Long, "600000", "After how many milliseconds without a request a connection is closed.", atLeast(1)),
		brokerDef("fetch.max.bytes", Int, "57671680", "The most bytes that one fetch is answered with, whatever it asks for; a single larger batch excepted.",
			atLeast(1024)),
		brokerDef("max.incremental.fetch.session.cache.slots", Int, "1000", "How many incremental fetch sessions (KIP-227) are kept at a time.",
			atLeast(0)),
	}
}

func topicPolicyDefs() []*Def {
	return []*Def{
		brokerDef("num.partitions", Int, "1", "The number of partitions of a topic whose creator did not say.", atLeast(1)),
		brokerDef("default.replication.factor", Int, "1", "The number of replicas of a topic whose creator did not say.",
			between(1, math.MaxInt16)),
		brokerDef("auto.create.topics.enable", Boolean, "true", "Whether a topic is created when a client asks for its metadata and allows it.",
			importance(High)),
		brokerDef("delete.topic.enable", Boolean, "true", "Whether topics can be deleted.", importance(High)),
	}
}

// topicDefault makes the broker config from which a topic config gets its value
// first. Where there is a second one the first has no default of its own.
func topicDefault(t *Def) *Def {
	s := t.Synonyms[0]
	d := &Def{Name: s.Name, Type: t.Type, Default: t.Default, HasDefault: true, Update: ClusterWide, Importance: t.Importance,
		Honoured: true, Doc: "The value of " + t.Name + " for topics that do not set it. " + t.Doc,
		Synonyms: t.Synonyms, Bounds: t.Bounds, checks: t.checks}
	if len(t.Synonyms) > 1 {
		noDefault(d)
	}
	switch s.Name {
	case "log.retention.ms":
		d.Importance, d.Bounds, d.checks = High, retentions, []check{someRetention}
	case "message.max.bytes", "log.segment.bytes", "log.roll.ms", "min.insync.replicas", "compression.type", "log.retention.bytes",
		"log.roll.jitter.ms", "log.segment.delete.delay.ms", "unclean.leader.election.enable":
		d.Importance = High
	}
	return d
}
