package configdef

import "math"

// foreignBrokerNames are the broker configs of Apache Kafka 4.4 that chronik does not read. They
// are refused by name, so that no operator relies on them.
const foreignBrokerNames = `
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms alter.config.policy.class.name
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
authorizer.class.name background.threads client.quota.callback.class config.providers
connection.failed.authentication.delay.ms connections.max.reauth.ms controller.listener.names
controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
controller.quota.window.size.seconds controller.socket.timeout.ms cordoned.log.dirs create.topic.policy.class.name
delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
delegation.token.secret.key delete.records.purgatory.purge.interval.requests early.start.listeners
errors.deadletterqueue.auto.create.topics.enable fetch.purgatory.purge.interval.requests
follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms
group.consumer.assignor.offload.enable group.consumer.max.assignment.interval.ms
group.consumer.min.assignment.interval.ms group.consumer.regex.refresh.interval.ms
group.coordinator.append.linger.ms group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
group.coordinator.rebalance.protocols group.coordinator.threads group.share.assignor.offload.enable
group.share.assignors group.share.dlq.manager.class.name group.share.persister.class.name
group.streams.acceptable.recovery.lag group.streams.assignor.offload.enable group.streams.assignors
group.streams.max.warmup.replicas group.streams.min.task.offset.interval.ms group.streams.num.warmup.replicas
group.streams.rack.aware.assignment.tags group.streams.task.offset.interval.ms
group.streams.topology.description.plugin.class initial.broker.registration.timeout.ms
internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
kafka.metrics.polling.interval.secs kafka.metrics.reporters leader.imbalance.check.interval.seconds
listener.security.protocol.map log.dir log.dir.failure.timeout.ms log.flush.offset.checkpoint.interval.ms
log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms
log.remote.copy.lag.bytes log.remote.copy.lag.ms max.decompressed.message.bytes max.request.partition.size.limit
metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
num.replica.fetchers offsets.commit.timeout.ms offsets.load.buffer.size offsets.topic.compression.codec
principal.builder.class process.roles producer.id.expiration.check.interval.ms
producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests quota.window.num
quota.window.size.seconds remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.follower.thread.pool.size remote.log.manager.task.retry.backoff.max.ms
remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes
replica.fetch.response.max.bytes replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms
replica.selector.class replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class sasl.enabled.mechanisms
sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.mechanism.inter.broker.protocol sasl.oauthbearer.allow.unverified.audience
sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
sasl.server.callback.handler.class sasl.server.max.receive.size security.inter.broker.protocol security.providers
server.max.startup.time.ms share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
share.coordinator.state.topic.compression.codec share.coordinator.state.topic.prune.interval.ms
share.coordinator.threads share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
ssl.principal.mapping.rules ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
transaction.two.phase.commit.enable unclean.leader.election.interval.ms unstable.api.versions.enable
unstable.feature.versions.enable
`

// formerBrokerNames are configs of earlier versions of Kafka and of its authorizer, which many
// server.properties files contain.
const formerBrokerNames = `
advertised.host.name advertised.port allow.everyone.if.no.acl.found auto.include.jmx.reporter
broker.id.generation.enable control.plane.listener.name host.name inter.broker.protocol.version
log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
offsets.commit.required.acks password.encoder.secret port quota.consumer.default quota.producer.default
reserved.broker.max.id super.users zookeeper.clientCnxnSocket zookeeper.connect
zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests zookeeper.session.timeout.ms
zookeeper.set.acl zookeeper.ssl.client.enable
`

// foreignDef returns the definition of a topic or group config that chronik does not use. A value
// that Kafka refuses has Kafka's error.
func foreignDef(name string, t Type, opts ...option) *Def {
	return topicDef(name, t, "", "", append(opts, noDefault, unsupported)...)
}

// foreignTopicDefs are Apache Kafka 4.4's other configs of topics.
func foreignTopicDefs() []*Def {
	return []*Def{
		foreignDef("max.decompressed.message.bytes", Int, between(1, math.MaxInt32-8)),
		foreignDef("remote.copy.lag.bytes", Long, atLeast(-1)),
		foreignDef("remote.copy.lag.ms", Long, atLeast(-1)),
	}
}

// foreignGroupDefs are Apache Kafka 4.4's other configs of single groups.
func foreignGroupDefs() []*Def {
	return []*Def{
		foreignDef("consumer.assignment.interval.ms", Int, atLeast(0)),
		foreignDef("consumer.assignor.offload.enable", Boolean),
		foreignDef("share.assignor.offload.enable", Boolean),
		foreignDef("streams.acceptable.recovery.lag", Long, atLeast(0)),
		foreignDef("streams.assignor.name", String),
		foreignDef("streams.assignor.offload.enable", Boolean),
		foreignDef("streams.num.warmup.replicas", Int, atLeast(0)),
		foreignDef("streams.rack.aware.assignment.tags", List),
		foreignDef("streams.task.offset.interval.ms", Int, atLeast(1)),
	}
}
