package configdef

import (
	"math"
)

// brokerDefs returns the broker configs that chronik reads. Defaults of topic configs can be
// changed dynamically, for one broker or for all, because topics resolve through them. Most others
// are read once at the start.
func brokerDefs(opts Options, topics []*Def) []*Def {
	defs := identityDefs()
	defs = append(defs, networkDefs()...)
	defs = append(defs, connectionDefs()...)
	defs = append(defs, topicPolicyDefs()...)
	defs = append(defs, groupDefs()...)
	defs = append(defs, streamsDefs()...)
	defs = append(defs, shareRecordDefs()...)
	defs = append(defs, shareGroupDefs()...)
	defs = append(defs, deadLetterDefs()...)
	defs = append(defs, offsetDefs()...)
	defs = append(defs, transactionDefs()...)
	defs = append(defs, shareDefs()...)
	defs = append(defs, cleaningDefs()...)
	defs = append(defs, clusterDefs()...)
	defs = append(defs, archiveDefs()...)
	defs = append(defs, brokerTierDefs()...)
	defs = append(defs,
		brokerDef("producer.id.expiration.ms", Int, "86400000",
			"The number of milliseconds without a batch after which a partition forgets a producer that has no open transaction.",
			importance(Low), atLeast(1)),
		brokerDef(ProduceProfileConfig, String, DefaultProduceProfile,
			"How many bytes of produce requests may wait in the broker, in total and per connection, before it stops reading from their connections.",
			oneOf(opts.ProduceProfiles...)),
	)
	for _, t := range topics {
		if len(t.Synonyms) > 0 {
			defs = append(defs, topicDefault(t))
		}
	}
	return append(defs, otherUnits()...)
}

// ProduceProfileConfig is the name of the broker config that selects a ProduceProfile.
const ProduceProfileConfig = "chronik.produce.profile"

// NoLogs is the value of log.dirs with which a broker of a cluster holds no logs.
const NoLogs = "none"

func identityDefs() []*Def {
	nonNegative := atLeast(0)
	return []*Def{
		brokerDef("node.id", Int, "1",
			"The id of this broker in its cluster. It must not change during the lifetime of the data directory.",
			importance(High), nonNegative, from("broker.id")),
		brokerDef("broker.id", Int, "", "The old name of node.id.",
			importance(High), nonNegative, from("node.id"), noDefault),
		brokerDef("broker.rack", String, "", "The rack, zone or host of this broker, as reported to clients. "+
			"New topics get their replicas on different racks, and a client with the same client.rack may read "+
			"from a replica in its rack (KIP-392).", noDefault),
		brokerDef("log.dirs", List, "", "The directories that hold the logs; by default one below the data directory. "+
			NoLogs+" makes this broker only vote: it holds no partitions.",
			importance(High), noDefault),
		brokerDef("journal.dirs", List, "",
			"The journal directory for each entry of log.dirs, in the same order; by default the log directory itself. "+
				"An acknowledgement waits for the journal only, so a fast disk without other writes shortens it.",
			importance(High), noDefault),
	}
}

func networkDefs() []*Def {
	return []*Def{
		brokerDef("listeners", List, "PLAINTEXT://127.0.0.1:9092",
			"The addresses on which the broker listens: NAME://HOST:PORT, comma-separated.",
			importance(High)),
		brokerDef("advertised.listeners", List, "",
			"The address that the broker reports to clients, for each listener; by default the one that the client has dialed.",
			importance(High), noDefault),
		brokerDef("socket.request.max.bytes", Int, "104857600",
			"The maximum size of a request in bytes. The broker closes the connection of a larger one. "+
				"A lower one bounds the memory of a request; it must be above max.message.bytes.",
			importance(High), atLeast(1)),
		brokerDef("connections.max.idle.ms", Long, "600000",
			"The number of milliseconds without a request after which the broker closes a connection. "+
				"A lower one frees what idle clients hold; a client connects again when it has a request.", atLeast(1)),
		brokerDef("fetch.max.bytes", Int, "57671680",
			"The maximum number of bytes in the response to a fetch, whatever the fetch asks for; a single larger batch is still returned.",
			atLeast(1024)),
		brokerDef("max.incremental.fetch.session.cache.slots", Int, "1000",
			"The maximum number of incremental fetch sessions (KIP-227) that the broker maintains. "+
				"A client without a session names all of its partitions in each fetch, which costs more if they are many.",
			atLeast(0)),
		brokerDef("telemetry.max.bytes", Int, "1048576",
			"The maximum number of bytes of metrics that a client may push at once (KIP-714), as compressed as it sends them. "+
				"Inflated, they may have at most four times as many, and at most 64 KiB plus 32 times what they had compressed.",
			between(1, 16<<20)),
	}
}

func topicPolicyDefs() []*Def {
	return []*Def{
		brokerDef("num.partitions", Int, "1", "The number of partitions of a topic whose creation does not specify it. "+
			"More of them let more members of a group read; partitions can be added later, but not removed.", atLeast(1)),
		brokerDef("default.replication.factor", Int, "1", "The number of replicas of a topic whose creation does not specify it. In a cluster, the default is the number of cluster.seeds, at most 3.",
			between(1, math.MaxInt16)),
		brokerDef("auto.create.topics.enable", Boolean, "true",
			"Whether the broker creates a topic when a client asks for its metadata and allows auto-creation. "+
				"Set false if a misspelled name should be an error.",
			importance(High)),
		brokerDef("delete.topic.enable", Boolean, "true", "Whether topics can be deleted. "+
			"Set false to protect them from a wrong command.", importance(High)),
	}
}

// topicDefault derives the broker config that sets the default of a topic config: the first synonym
// of t. If there is a second such config, the first has no default of its own.
func topicDefault(t *Def) *Def {
	s := t.Synonyms[0]
	d := &Def{Name: s.Name, Type: t.Type, Default: t.Default, HasDefault: true, Update: ClusterWide, Importance: t.Importance,
		Supported: true, Doc: "The value of " + t.Name + " for topics that do not set it. " + t.Doc,
		Synonyms: t.Synonyms, Bounds: t.Bounds, checks: t.checks}
	if len(t.Synonyms) > 1 {
		noDefault(d)
	}
	switch s.Name {
	case "log.retention.ms":
		d.Importance, d.Bounds, d.checks = High, retentions, []check{nonZeroRetention}
	case "message.max.bytes", "log.segment.bytes", "log.roll.ms", "min.insync.replicas", "compression.type", "log.retention.bytes",
		"log.roll.jitter.ms", "log.segment.delete.delay.ms", "unclean.leader.election.enable":
		d.Importance = High
	}
	return d
}
