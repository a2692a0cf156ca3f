package io.chronik.judges;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;

/**
 * Turns Kafka's server properties into a configuration of chronikd. chronikd itself decides what it
 * accepts: a setting that `chronikd config check` refuses is left out, and kept in {@link #LEFT_OUT}
 * for the report of the case.
 */
final class Settings {
    /** Settings that the cases so far have asked for and that chronikd refused, with its reason. */
    static final Set<String> LEFT_OUT = new ConcurrentSkipListSet<>();

    /** What the test kit or {@link Brokers} decides: addresses, directories, roles, logins. */
    private static final Set<String> OWN = Set.of("listeners", "advertised.listeners", "log.dirs", "log.dir", "node.id",
        "process.roles", "inter.broker.listener.name", "listener.security.protocol.map", "controller.listener.names",
        "authorizer.class.name", "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol",
        "sasl.mechanism.controller.protocol", "super.users");

    /** By how many milliseconds chronik remembers producers for longer than the longest transaction. */
    private static final long BEYOND_TRANSACTIONS = 120_001;

    private Settings() { }

    /**
     * Writes FILE with the lines of head, and the properties that chronikd accepts.
     *
     * @throws IOException if chronikd cannot be called, or refuses head
     */
    static void write(Path chronikd, Path file, List<String> head, Map<String, String> properties)
            throws IOException, InterruptedException {
        Map<String, String> left = new TreeMap<>(properties);
        left.keySet().removeAll(OWN);
        keepProducers(left);
        // The lowest that chronik accepts; no client has a session timeout below 1 ms.
        left.replace("group.min.session.timeout.ms", "0", "1");
        for (;;) {
            List<String> lines = new ArrayList<>(head);
            left.forEach((name, value) -> lines.add(name + ": " + quoted(value)));
            Files.write(file, lines);
            Process check = new ProcessBuilder(chronikd.toString(), "config", "check", "--config", file.toString())
                .redirectErrorStream(true).start();
            String output = new String(check.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (check.waitFor() == 0) {
                return;
            }
            Set<String> refused = new TreeSet<>();
            for (String line : output.split("\n")) {
                for (String name : left.keySet()) {
                    int at = line.indexOf(": " + name + ": ");
                    if (at >= 0 && refused.add(name)) {
                        LEFT_OUT.add(name + "=" + left.get(name) + " (" + line.substring(at + name.length() + 4) + ")");
                    }
                }
            }
            if (!left.keySet().removeAll(refused)) {
                throw new IOException("chronikd refuses " + file + ": " + output);
            }
        }
    }

    /**
     * Lets partitions remember producers for longer than the longest transaction, as chronik requires:
     * tests that permit transactions of any duration leave producer.id.expiration.ms at a day.
     */
    private static void keepProducers(Map<String, String> properties) {
        String longest = properties.get("transaction.max.timeout.ms");
        if (longest != null && !properties.containsKey("producer.id.expiration.ms")) {
            long timeout = Math.min(Long.parseLong(longest), Integer.MAX_VALUE - BEYOND_TRANSACTIONS);
            properties.put("transaction.max.timeout.ms", String.valueOf(timeout));
            properties.put("producer.id.expiration.ms", String.valueOf(Math.max(86_400_000L, timeout + BEYOND_TRANSACTIONS)));
        }
    }

    /** Returns value as a string of YAML. */
    static String quoted(String value) {
        return '"' + value.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
