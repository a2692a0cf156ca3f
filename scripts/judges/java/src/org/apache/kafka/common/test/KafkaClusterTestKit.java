package org.apache.kafka.common.test;

import io.chronik.judges.Brokers;

import org.apache.kafka.clients.admin.Admin;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * The cluster below EmbeddedKafkaCluster of Kafka Streams's tests, of processes of chronikd. It
 * replaces the class of the same name in kafka-test-common-runtime, which is behind it on the class
 * path, and has what EmbeddedKafkaCluster calls.
 */
public class KafkaClusterTestKit implements AutoCloseable {
    private final Brokers brokers;
    private final MockFaultHandler faults = new MockFaultHandler("faults");

    private KafkaClusterTestKit(Brokers brokers) {
        this.brokers = brokers;
    }

    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, String> properties = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String name, Object value) {
            properties.put(name, String.valueOf(value));
            return this;
        }

        public KafkaClusterTestKit build() throws Exception {
            Map<Integer, Map<String, String>> each = new HashMap<>();
            nodes.brokerNodes().forEach((id, node) -> each.put(id, node.propertyOverrides()));
            return new KafkaClusterTestKit(new Brokers(nodes.brokerNodes().size(), properties, each,
                nodes.brokerListenerProtocol(), Path.of(nodes.baseDirectory())));
        }
    }

    public void format() { }

    public void startup() throws Exception {
        brokers.start();
    }

    public void waitForReadyBrokers() throws InterruptedException {
        brokers.awaitMetadata();
    }

    public String bootstrapServers() {
        return brokers.bootstrap();
    }

    public Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrapServers()));
    }

    /** Returns a map of the brokers' ids; what it maps them to is not Kafka's broker. */
    public Map<Integer, Object> brokers() {
        Map<Integer, Object> result = new HashMap<>();
        brokers.ids().forEach(id -> result.put(id, "broker " + id));
        return result;
    }

    public MockFaultHandler fatalFaultHandler() {
        return faults;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() throws IOException {
        brokers.close();
    }
}
