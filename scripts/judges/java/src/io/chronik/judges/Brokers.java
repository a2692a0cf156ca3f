package io.chronik.judges;

import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.JaasUtils;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Processes of chronikd in place of the brokers of a test cluster. They have the ids and the ports
 * that they keep over restarts. More than one broker form a cluster whose metadata are stored by a
 * further process, which only votes: as in the tests' clusters, the metadata survive the end of all
 * brokers. Clients don't see it.
 *
 * <p>The processes are of the process group of this one, so that whoever started it can end them.
 */
public final class Brokers implements AutoCloseable {
    /** The id of the process that only votes; that of the first controller of Kafka's test clusters. */
    private static final int VOTER = 3000;
    /** How long a start may take. It ends a start that hangs, and is no bound of its speed. */
    private static final long START_LIMIT_NANOS = TimeUnit.MINUTES.toNanos(2);
    private static final Path CHRONIKD = Path.of(System.getProperty("judges.chronikd"));
    private static final Path LOGS = Path.of(System.getProperty("judges.logs"));
    private static final AtomicInteger CLUSTERS = new AtomicInteger();
    private static final Pattern REVISION = Pattern.compile("(?m)^chronik_metadata_applied_revision(?:\\{[^}]*\\})? (\\S+)$");

    private final int cluster = CLUSTERS.incrementAndGet();
    private final Path directory;
    private final SortedMap<Integer, Node> nodes = new TreeMap<>();
    private final List<ServerSocket> held = new ArrayList<>();

    private static final class Node {
        int port;
        int inner;
        int admin;
        Path home;
        volatile Process process;
        int starts;
    }

    /**
     * @param count     the number of brokers, with the ids from 0
     * @param common    properties of all brokers
     * @param each      properties of single brokers
     * @param security  of the clients' listener: PLAINTEXT or SASL_PLAINTEXT
     * @param directory an empty directory, which {@link #close} leaves
     */
    public Brokers(int count, Map<String, String> common, Map<Integer, Map<String, String>> each, SecurityProtocol security,
                   Path directory) throws IOException, InterruptedException {
        this.directory = directory;
        Files.createDirectories(directory);
        for (int id = 0; id < count; id++) {
            nodes.put(id, node(id));
        }
        if (count > 1) {
            nodes.put(VOTER, node(VOTER));
        }
        for (Map.Entry<Integer, Node> entry : nodes.entrySet()) {
            Map<String, String> properties = new HashMap<>(defaults(count));
            properties.putAll(common);
            properties.putAll(each.getOrDefault(entry.getKey(), Map.of()));
            if (entry.getKey() == VOTER) {
                properties.remove("broker.rack");
            }
            configure(entry.getKey(), entry.getValue(), properties, security);
        }
    }

    private Node node(int id) throws IOException {
        Node node = new Node();
        node.port = hold();
        node.inner = hold();
        node.admin = hold();
        node.home = directory.resolve("broker-" + id);
        Files.createDirectories(node.home);
        return node;
    }

    /** Finds a port below those that the kernel gives to any program, so that a stopped broker's stays free. */
    private int hold() throws IOException {
        Random random = new Random();
        for (int attempt = 0; attempt < 1000; attempt++) {
            ServerSocket socket = new ServerSocket();
            try {
                socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 11000 + random.nextInt(18000)));
                held.add(socket);
                return socket.getLocalPort();
            } catch (IOException taken) {
                socket.close();
            }
        }
        throw new IOException("no port between 11000 and 29000 is free");
    }

    /** Kafka's defaults where chronik's depend on the cluster. */
    private static Map<String, String> defaults(int count) {
        return count == 1 ? Map.of() : Map.of("default.replication.factor", "1", "min.insync.replicas", "1",
            "offsets.topic.replication.factor", String.valueOf(Math.min(count, 3)));
    }

    private void configure(int id, Node node, Map<String, String> properties, SecurityProtocol security)
            throws IOException, InterruptedException {
        List<String> head = new ArrayList<>();
        boolean alone = nodes.size() == 1;
        boolean logins = security == SecurityProtocol.SASL_PLAINTEXT;
        head.add("listeners:");
        if (id != VOTER) {
            head.add("- {name: CLIENTS, listen: \"localhost:" + node.port + "\", advertise: \"localhost:" + node.port + "\""
                + (logins ? ", sasl: [PLAIN]" : "") + "}");
        }
        if (!alone) {
            head.add("- {name: BROKERS, listen: \"localhost:" + node.inner + "\", advertise: \"localhost:" + node.inner + "\"}");
            head.add("inter.broker.listener.name: BROKERS");
            head.add("cluster.name: judges");
            head.add("cluster.seeds: [\"localhost:" + nodes.get(VOTER).inner + "\"]");
        }
        if (id == VOTER) {
            head.add("log.dirs: none");
        }
        head.add("node.id: " + id);
        head.add("data.dir: " + Settings.quoted(node.home.resolve("data").toString()));
        head.add("admin.listen: \"127.0.0.1:" + node.admin + "\"");
        if (logins) {
            Path users = secret(node.home.resolve("users"), JaasUtils.KAFKA_PLAIN_ADMIN + ":SCRAM-SHA-512:" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD + "\n"
                + JaasUtils.KAFKA_PLAIN_USER1 + ":SCRAM-SHA-512:" + JaasUtils.KAFKA_PLAIN_USER1_PASSWORD + "\n");
            head.add("bootstrap.users: " + Settings.quoted(users.toString()));
        }
        if (logins || properties.containsKey("authorizer.class.name")) {
            head.add("authorization: acl");
            head.add("super-users: " + Settings.quoted(
                properties.getOrDefault("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN)));
            if (!alone) {
                head.add("cluster.secret.file: " + Settings.quoted(
                    secret(node.home.resolve("secret"), "the brokers of the judges' clusters know it\n").toString()));
            }
        }
        Settings.write(CHRONIKD, node.home.resolve("chronikd.yaml"), head, properties);
    }

    /** Writes a file that only its user may read. */
    private static Path secret(Path file, String text) throws IOException {
        Files.createFile(file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        return Files.writeString(file, text);
    }

    /** Starts all brokers, and returns when they serve clients. */
    public void start() throws IOException, InterruptedException {
        for (ServerSocket socket : held) {
            socket.close();
        }
        held.clear();
        for (Map.Entry<Integer, Node> entry : nodes.entrySet()) {
            launch(entry.getKey(), entry.getValue());
        }
        for (Map.Entry<Integer, Node> entry : nodes.entrySet()) {
            awaitReady(entry.getKey(), entry.getValue());
        }
    }

    /** Starts a broker that {@link #stop} has stopped, and returns when it serves clients. */
    public void start(int id) throws IOException, InterruptedException {
        Node node = broker(id);
        if (runs(node)) {
            return;
        }
        launch(id, node);
        awaitReady(id, node);
    }

    /** Stops a broker as an operator does, and returns when its process has ended. */
    public void stop(int id) throws InterruptedException {
        Node node = broker(id);
        Process process = node.process;
        if (process == null) {
            return;
        }
        process.destroy();
        if (!process.waitFor(2, TimeUnit.MINUTES)) {
            process.destroyForcibly().waitFor();
            throw new IllegalStateException("broker " + id + " did not stop within two minutes");
        }
    }

    /** Reports whether the process of a broker runs. */
    public boolean runs(int id) {
        return runs(broker(id));
    }

    private static boolean runs(Node node) {
        return node.process != null && node.process.isAlive();
    }

    /** Returns the ids of the brokers that clients see. */
    public Set<Integer> ids() {
        Set<Integer> ids = new TreeSet<>(nodes.keySet());
        ids.remove(VOTER);
        return ids;
    }

    /** Returns the id of the controller that Kafka would have. */
    public int controller() {
        return nodes.size() == 1 ? nodes.firstKey() : VOTER;
    }

    /** Returns the port of a broker for clients. */
    public int port(int id) {
        return broker(id).port;
    }

    /** Returns the addresses of all brokers, separated by commas. */
    public String bootstrap() {
        return ids().stream().map(id -> "localhost:" + port(id)).collect(Collectors.joining(","));
    }

    /** Waits until all brokers that run work with the newest metadata that one of them had at the call. */
    public void awaitMetadata() throws InterruptedException {
        Collection<Node> running = nodes.values().stream().filter(Brokers::runs).toList();
        double newest = 0;
        for (Node node : running) {
            newest = Math.max(newest, revision(node));
        }
        for (Node node : running) {
            while (runs(node) && revision(node) < newest) {
                TimeUnit.MILLISECONDS.sleep(20);
            }
        }
    }

    /** Returns -1 if the broker does not answer. */
    private static double revision(Node node) {
        try {
            Matcher matcher = REVISION.matcher(get(node, "/metrics"));
            return matcher.find() ? Double.parseDouble(matcher.group(1)) : 0;
        } catch (IOException notYet) {
            return -1;
        }
    }

    private Node broker(int id) {
        Node node = nodes.get(id);
        if (node == null) {
            throw new IllegalArgumentException("Unknown brokerId " + id);
        }
        return node;
    }

    private void launch(int id, Node node) throws IOException {
        node.starts++;
        Path log = LOGS.resolve("cluster-" + cluster + "-broker-" + id + "-start-" + node.starts + ".log");
        node.process = new ProcessBuilder(CHRONIKD.toString(), "--config", node.home.resolve("chronikd.yaml").toString())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(log.toFile()).start();
    }

    private void awaitReady(int id, Node node) throws IOException, InterruptedException {
        long begin = System.nanoTime();
        while (true) {
            try {
                if (get(node, "/readyz").startsWith("HTTP/1.1 200")) {
                    return;
                }
            } catch (IOException notYet) {
                // It does not listen yet.
            }
            if (!runs(node)) {
                throw new IOException("broker " + id + " has ended with " + node.process.exitValue() + ", see its log in " + LOGS);
            }
            if (System.nanoTime() - begin > START_LIMIT_NANOS) {
                throw new IOException("broker " + id + " is not ready after two minutes, see its log in " + LOGS);
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    /** Sends a request to the admin port. Without threads of its own, since tests look for threads that stay. */
    private static String get(Node node, String path) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), node.admin)) {
            socket.setSoTimeout(30_000);
            socket.getOutputStream().write(("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                .getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /** Stops all processes. A broker that does not stop within half a minute is killed. */
    @Override
    public void close() throws IOException {
        for (ServerSocket socket : held) {
            socket.close();
        }
        boolean interrupted = false;
        // The voter goes last, because the others hand over their partitions.
        for (boolean voter : new boolean[] {false, true}) {
            Collection<Node> ending = nodes.entrySet().stream()
                .filter(entry -> (entry.getKey() == VOTER) == voter && runs(entry.getValue())).map(Map.Entry::getValue).toList();
            ending.forEach(node -> node.process.destroy());
            for (Node node : ending) {
                try {
                    if (interrupted || !node.process.waitFor(30, TimeUnit.SECONDS)) {
                        node.process.destroyForcibly();
                    }
                } catch (InterruptedException e) {
                    interrupted = true;
                    node.process.destroyForcibly();
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
