package org.apache.kafka.common.test.junit;

import io.chronik.judges.Cluster;
import io.chronik.judges.Twin;

import org.apache.kafka.common.test.api.ClusterConfig;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import java.util.List;

import static org.apache.kafka.common.test.api.Type.KRAFT;

/**
 * Gives each case of Kafka's client tests a cluster of chronik. It replaces the class of the same
 * name in kafka-test-common-runtime, which is behind it on the class path, and is called by
 * ClusterTestExtensions there.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseDisplayName;
    private final ClusterConfig config;
    private final boolean combined;
    private Cluster cluster;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig config, boolean combined) {
        this.baseDisplayName = baseDisplayName;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        if (twin()) {
            return Twin.NAME;
        }
        return String.format("%s [%d] %s", baseDisplayName, index, String.join(",", config.displayTags()));
    }

    private boolean twin() {
        return combined && config.clusterTypes().contains(KRAFT);
    }

    /** Returns the cluster. Tests ask for it before it is started, in their constructors. */
    private Cluster cluster() {
        if (twin()) {
            throw new Twin();
        }
        if (cluster == null) {
            try {
                cluster = new Cluster(config, combined);
            } catch (Exception e) {
                throw new RuntimeException("cannot prepare chronik's brokers: " + e.getMessage(), e);
            }
        }
        return cluster;
    }

    private void stop(ExtensionContext context) {
        if (cluster != null) {
            cluster.stop();
        }
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        return List.of(
            (BeforeEachCallback) context -> {
                if (config.isAutoStart()) {
                    cluster().start();
                } else {
                    cluster();
                }
            },
            (AfterTestExecutionCallback) this::stop,
            // If the test did not begin because its preparation failed.
            (AfterEachCallback) this::stop,
            new ParameterResolver() {
                @Override
                public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
                    return parameter.getParameter().getType().isAssignableFrom(Cluster.class);
                }

                @Override
                public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
                    return cluster();
                }
            });
    }
}
