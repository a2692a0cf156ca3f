package configdef

import "strings"

// remedy is a remedy for configs that Kafka has or had and chronik does not use, for users who
// bring a server.properties, or scripts that create topics.
type remedy struct {
	// names are complete names, and prefixes that end with a dot.
	names []string
	// remedy is what to do, without a full stop.
	remedy string
}

// remedies returns all remedies; the first match applies.
func remedies() []remedy {
	return []remedy{
		{[]string{"log.dir"}, "use log.dirs, or data.dir alone"},
		{[]string{"max.decompressed.message.bytes"},
			"leave it out: a batch may decompress to 100 times max.message.bytes, but at least to 16 MiB and at most to 256 MiB"},
		{[]string{"remote.copy.lag.", "log.remote.copy.lag."},
			"leave it out: leaders copy records as soon as they can; see remote.log.manager.task.interval.ms"},
		{[]string{"consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms",
			"group.consumer.max.assignment.interval.ms"},
			"leave it out: the pause between two targets of a consumer group depends on what a target costs"},
		{[]string{"group.consumer.assignor.offload.enable", "consumer.assignor.offload.enable", "group.share.assignor.offload.enable",
			"share.assignor.offload.enable", "group.streams.assignor.offload.enable", "streams.assignor.offload.enable"},
			"leave it out: where targets are computed is not configurable"},
		{[]string{"group.streams.topology.description.plugin.class"}, "leave it out: chronik loads no classes"},
		{[]string{"group.streams.assignors", "streams.assignor.name"}, "leave it out: streams groups have one assignor, sticky"},
		{[]string{"group.streams.rack.aware.assignment.tags", "streams.rack.aware.assignment.tags"},
			"leave it out: standby tasks go to other processes, whatever their tags"},
		{[]string{"group.streams.", "streams."}, "leave it out: streams groups have no warm-up tasks"},
		{[]string{"errors.deadletterqueue.auto.create.topics.enable"},
			"leave it out: a topic for dead letters is created by hand, as with Kafka's default; see docs/queues.md"},
		{[]string{"log.flush."},
			"leave it out: the durability profile determines when records are synced (wal.profile, chronik.durability.profile of a topic)"},
		{[]string{"process.roles", "controller.", "metadata.", "internal.metadata.", "initial.broker.registration.timeout.ms",
			"controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms", "server.max.startup.time.ms",
			"early.start.listeners", "zookeeper."},
			"leave it out: every broker can be the controller; see cluster.name and cluster.seeds"},
		{[]string{"inter.broker.protocol.version", "log.message.format.version", "log.message.downconversion.enable", "unstable."},
			"leave it out: there are no versions to choose from"},
		{[]string{"ssl.key.password", "ssl.keystore.password", "ssl.truststore.password"},
			"leave it out: files are not encrypted but readable by the broker's user only (openssl pkey -in KEY -out server-key.pem decrypts one)"},
		{[]string{"ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"},
			"write the PEM text to a file and name it with tls: {certificate: FILE, key: FILE, client-ca: FILE}"},
		{[]string{"sasl.kerberos."}, "leave it out: there is no Kerberos; use SCRAM-SHA-512, OAUTHBEARER or client certificates"},
		{[]string{"sasl.jaas.config"}, "leave it out: users are stored in the cluster (chronikctl user add); see docs/security.md"},
		{[]string{"security.inter.broker.protocol", "sasl.mechanism.inter.broker.protocol"},
			"leave it out: brokers use the listener inter.broker.listener.name and prove that they know cluster.secret.file"},
		{[]string{"password.encoder.", "delegation.token.", "config.providers"},
			"leave it out: there is none; secrets are read from files"},
		{[]string{"principal.builder.class"}, "leave it out: chronik loads no classes; see tls.principal-rules and oauth.principal-claim"},
		{[]string{"sasl.oauthbearer.scope.claim.name"}, "leave it out: rights come from access rules, not from the scopes of a token"},
		{[]string{"ssl.", "sasl.", "security.", "authorizer.", "super.users", "listener.security.protocol.map",
			"allow.everyone.if.no.acl.found",
			"connections.max.reauth.ms", "connection.failed.authentication.delay.ms"},
			"see docs/security.md for the settings of TLS, logins and rights, which only the broker's own file changes"},
		{[]string{"replica.selector.class"}, "leave it out: consumers with a client.rack read from a replica in that rack in any case"},
		{[]string{"replica.", "num.replica.", "follower.", "leader.",
			"alter.log.dirs.",
			"replication.", "socket.connection.setup.", "request.timeout.ms", "cordoned.log.dirs", "unclean.leader.election.interval.ms"},
			"leave it out: replication has no such setting; docs/configuration.md lists those that begin with replica."},
		{[]string{"transaction.two.phase.commit.enable"}, "leave it out: there is no two-phase commit (KIP-939) yet"},
		{[]string{"transaction.", "add.partitions.to.txn."}, "leave it out: transactions have no such setting"},
		{[]string{"group.share.assignors"}, "leave it out: share groups have one assignor, simple"},
		{[]string{"group.share.", "share."}, "leave it out: share groups have no such setting"},
		{[]string{"remote."}, "leave it out: archive.url is where old records go, and archive.cache.bytes is for reading them; see docs/tiered-storage.md"},
		{[]string{"quota.", "client.quota."},
			"leave it out: quotas are set with chronikctl quota, have no windows and apply at once; see docs/quotas.md"},
		{[]string{"queued."}, "leave it out: produce.profile bounds the waiting requests"},
		{[]string{"num.", "background.threads", "group.coordinator.", "socket."},
			"leave it out: threads and buffers are not configurable"},
		{[]string{"metric.", "metrics.", "kafka.metrics.", "telemetry.", "auto.include.jmx.reporter"},
			"leave it out: metrics are served at /metrics of admin.listen"},
		{[]string{"host.name", "port", "advertised.host.name", "advertised.port"}, "use listeners in the file, or listen and advertise"},
		{[]string{"log.message.timestamp.difference.max.ms"},
			"use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"},
		{[]string{"alter.config.policy.", "create.topic.policy."}, "leave it out: chronik loads no classes"},
	}
}

// Remedy returns what to do about a config that Kafka has or had and chronik does not use. It
// matches prefixes, so it must not be called with unknown names.
func Remedy(name string) string {
	for _, i := range remedies() {
		for _, n := range i.names {
			if name == n || strings.HasSuffix(n, ".") && strings.HasPrefix(name, n) {
				return i.remedy
			}
		}
	}
	return "leave it out"
}

// refused returns the error for a config that Kafka has and chronik does not use; kind is "Topic",
// "Group" or "Broker".
func refused(kind, name string) *Error {
	return &Error{name, kind + " config " + name + " exists in Kafka, but this version of chronik does not support it; " + Remedy(name)}
}
