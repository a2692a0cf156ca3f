package io.chronik.judges;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;

/**
 * The cluster that the tests of Kafka's clients get, of processes of chronikd. What reaches into
 * Kafka's broker or its controller throws {@link NotAsked}. A broker can be stopped and started, and
 * has its configuration.
 */
public final class Cluster implements ClusterInstance {
    private final ClusterConfig config;
    private final boolean combined;
    private final Brokers brokers;
    private final Map<Integer, KafkaBroker> views = new TreeMap<>();
    private boolean started;
    private boolean stopped;

    public Cluster(ClusterConfig config, boolean combined) throws IOException, InterruptedException {
        this.config = config;
        this.combined = combined;
        if (config.numDisksPerBroker() > 1) {
            throw new NotAsked("asks for " + config.numDisksPerBroker() + " log directories");
        }
        brokers = new Brokers(config.numBrokers(), config.serverProperties(), config.perServerOverrideProperties(),
            config.brokerSecurityProtocol(), TestUtils.tempDirectory().toPath());
        for (int id : brokers.ids()) {
            views.put(id, (KafkaBroker) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {KafkaBroker.class},
                (proxy, method, arguments) -> ask(id, method, arguments)));
        }
    }

    /** Answers a call of a method of Kafka's broker. */
    private Object ask(int id, Method method, Object[] arguments) throws Exception {
        switch (method.getName()) {
            case "shutdown":
                brokers.stop(id);
                return null;
            case "awaitShutdown":
                return null;
            case "startup":
                brokers.start(id);
                return null;
            case "isShutdown":
                return !brokers.runs(id);
            case "brokerState":
                return brokers.runs(id) ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
            case "boundPort":
                return brokers.port(id);
            case "config":
                return kafkaConfig(id);
            case "clusterId":
                return clusterId();
            case "metadataCache":
                return Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {MetadataCache.class},
                    (proxy, called, with) -> askMetadata(called));
            case "hashCode":
                return id;
            case "equals":
                return arguments[0] == views.get(id);
            case "toString":
                return "broker " + id;
            default:
                throw new NotAsked("calls " + method.getName() + "() of Kafka's broker");
        }
    }

    /** Answers a call of a method of a broker's metadata cache. */
    private Object askMetadata(Method method) throws Exception {
        if (!method.getName().equals("getAliveBrokerNodes")) {
            throw new NotAsked("calls " + method.getName() + "() of the metadata cache of Kafka's broker");
        }
        try (Admin admin = admin()) {
            return List.copyOf(admin.describeCluster().nodes().get());
        }
    }

    private KafkaConfig kafkaConfig(int id) {
        Map<String, Object> properties = new HashMap<>(config.serverProperties());
        properties.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
        properties.put("process.roles", "broker");
        properties.put("node.id", String.valueOf(id));
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("controller.quorum.bootstrap.servers", "localhost:1");
        properties.put("listener.security.protocol.map",
            clientListener().value() + ":" + config.brokerSecurityProtocol() + ",CONTROLLER:PLAINTEXT");
        properties.put("listeners", clientListener().value() + "://localhost:" + brokers.port(id));
        properties.put("inter.broker.listener.name", clientListener().value());
        return new KafkaConfig(properties, false);
    }

    @Override
    public Type type() {
        return combined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return views;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        throw new NotAsked("reaches into Kafka's controller");
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(brokers.controller());
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return brokers.bootstrap();
    }

    @Override
    public String bootstrapControllers() {
        throw new NotAsked("connects to the listener of a controller, which chronik does not have");
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw new NotAsked("connects to the listener of a controller, which chronik does not have");
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return brokers.ids().stream().map(brokers::port).toList();
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (InterruptedException | ExecutionException e) {
            throw new RuntimeException(e);
        }
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        Short level = config.features().get(Feature.GROUP_VERSION);
        return level != null && level == 0 ? Set.of(GroupProtocol.CLASSIC) : Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void start() {
        if (started) {
            return;
        }
        started = true;
        try {
            brokers.start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public void stop() {
        if (stopped) {
            return;
        }
        stopped = true;
        try {
            brokers.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int id) {
        try {
            brokers.stop(id);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    @Override
    public void startBroker(int id) {
        try {
            brokers.start(id);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        brokers.awaitMetadata();
    }

    @Override
    public void ensureConsistentMetadata() throws InterruptedException {
        brokers.awaitMetadata();
    }

    /**
     * Creates a topic. The tests create __consumer_offsets so that it exists when they begin; chronik
     * creates it when a client looks for a coordinator, with the configs that it needs.
     */
    @Override
    public void createTopic(String topic, int partitions, short replicas, Map<String, String> configs) throws InterruptedException {
        if (!topic.equals(Topic.GROUP_METADATA_TOPIC_NAME)) {
            ClusterInstance.super.createTopic(topic, partitions, replicas, configs);
            return;
        }
        try (Admin admin = admin()) {
            admin.describeConsumerGroups(List.of("judges")).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof GroupIdNotFoundException)) {
                throw new RuntimeException(e);
            }
        }
        waitTopicCreation(topic, partitions);
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        if (partitions <= 0) {
            throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
        }
        awaitPartitions(topic, partitions);
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        awaitPartitions(topic, 0);
    }

    private void awaitPartitions(String topic, int partitions) throws InterruptedException {
        TestUtils.waitForCondition(() -> {
            try {
                for (int id : brokers.ids()) {
                    if (brokers.runs(id) && partitions(id, topic) != partitions) {
                        return false;
                    }
                }
                return true;
            } catch (IOException | ExecutionException notYet) {
                return false;
            } catch (InterruptedException e) {
                throw new RuntimeException(e);
            }
        }, 60_000L, topic + " does not have " + partitions + " partitions on all brokers after 60000 ms");
        brokers.awaitMetadata();
    }

    /** Returns the number of partitions that a broker reports, 0 if it does not know the topic. */
    private int partitions(int id, String topic) throws IOException, InterruptedException, ExecutionException {
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
            // Clusters with logins have one broker, so any answer is its own.
            try (Admin admin = admin()) {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            } catch (ExecutionException e) {
                if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                    return 0;
                }
                throw e;
            }
        }
        short version = 12;
        MetadataRequest request = new MetadataRequest.Builder(List.of(topic), false, version, version)
            .build(version);
        RequestHeader header = new RequestHeader(ApiKeys.METADATA, version, "judges", 1);
        ByteBuffer buffer = RequestUtils.serialize(header.data(), header.headerVersion(), request.data(), version);
        try (Socket socket = new Socket(InetAddress.getByName("localhost"), brokers.port(id))) {
            socket.setSoTimeout(30_000);
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.writeInt(buffer.remaining());
            out.write(buffer.array(), buffer.arrayOffset() + buffer.position(), buffer.remaining());
            out.flush();
            DataInputStream in = new DataInputStream(socket.getInputStream());
            ByteBuffer answer = ByteBuffer.wrap(in.readNBytes(in.readInt()));
            ResponseHeader.parse(answer, ApiKeys.METADATA.responseHeaderVersion(version));
            MetadataResponse response = MetadataResponse.parse(new ByteBufferAccessor(answer), version);
            for (MetadataResponseTopic found : response.data().topics()) {
                if (found.errorCode() == Errors.NONE.code()) {
                    return found.partitions().size();
                }
            }
            return 0;
        }
    }

    @Override
    public List<Authorizer> authorizers() {
        throw new NotAsked("calls Kafka's authorizer");
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        try (Admin admin = admin()) {
            TestUtils.waitForCondition(() -> {
                Set<AccessControlEntry> found = new HashSet<>();
                try {
                    for (AclBinding binding : admin.describeAcls(filter).values().get()) {
                        found.add(binding.entry());
                    }
                } catch (InterruptedException | ExecutionException e) {
                    throw new RuntimeException(e);
                }
                return found.equals(new HashSet<>(entries));
            }, 15_000L, "expected acls: " + entries);
        }
        brokers.awaitMetadata();
    }
}
