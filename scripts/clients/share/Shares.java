import java.io.FileReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Members of a share group of kafka-clients; see ../share.sh, which says what is checked. */
public class Shares {
    static String topic, group;
    /** The delivery count of an answered release. */
    static final Map<String, Short> RELEASED = new HashMap<>();
    /** Acknowledged or rejected: true if that was answered. */
    static final Map<String, Boolean> FINISHED = new HashMap<>();

    static Properties connection() throws Exception {
        Properties p = new Properties();
        String file = System.getenv("SETTINGS");
        if (file == null || file.isEmpty()) {
            p.setProperty("bootstrap.servers", System.getenv("BOOTSTRAP"));
            return p;
        }
        try (var in = new FileReader(file)) { p.load(in); }
        return p;
    }

    static KafkaShareConsumer<String, String> member(String mode) throws Exception {
        Properties p = connection();
        p.putAll(Map.of("group.id", group, "share.acknowledgement.mode", mode, "max.poll.records", "20"));
        var c = new KafkaShareConsumer<>(p, new StringDeserializer(), new StringDeserializer());
        c.subscribe(List.of(topic));
        return c;
    }

    static AcknowledgeType acknowledgement(ConsumerRecord<String, String> r) {
        if (r.value().endsWith("7")) return AcknowledgeType.REJECT;
        if (r.value().endsWith("3") && r.deliveryCount().get() == 1) return AcknowledgeType.RELEASE;
        return AcknowledgeType.ACCEPT;
    }

    /** Polls once, and acknowledges what it gets. */
    static List<String> take(KafkaShareConsumer<String, String> c) {
        List<String> taken = new ArrayList<>();
        var records = c.poll(Duration.ofMillis(200));
        for (var r : records) {
            if (FINISHED.getOrDefault(r.value(), false)) {
                throw new IllegalStateException(r.value() + " is delivered again after its acknowledgement was answered");
            }
            short count = RELEASED.getOrDefault(r.value(), (short) 0);
            if (count >= r.deliveryCount().get()) {
                throw new IllegalStateException(r.value() + " has delivery count " + r.deliveryCount() + " after an answered release with " + count);
            }
            c.acknowledge(r, acknowledgement(r));
            taken.add(r.value());
        }
        if (taken.isEmpty()) return taken;
        Set<Integer> failed = new HashSet<>();
        c.commitSync(Duration.ofMinutes(1)).forEach((of, error) -> { if (error.isPresent()) failed.add(of.partition()); });
        for (var r : records) {
            boolean answered = !failed.contains(r.partition());
            if (acknowledgement(r) != AcknowledgeType.RELEASE) FINISHED.put(r.value(), answered);
            else if (answered) RELEASED.put(r.value(), r.deliveryCount().get());
        }
        return taken;
    }

    static void write(List<String> values) throws Exception {
        Properties p = connection();
        p.setProperty("batch.size", "500");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < values.size(); i++) sent.add(producer.send(new ProducerRecord<>(topic, i % 2, null, values.get(i))));
            for (var one : sent) one.get();
        }
    }

    static void play(int n) throws Exception {
        write(IntStream.range(0, n).mapToObj(i -> "value " + i).toList());
        var members = List.of(member("explicit"), member("explicit"));
        for (int shown = 0; FINISHED.size() < n; ) {
            for (var c : members) take(c);
            for (; shown < FINISHED.size() / 100; shown++) System.out.println("finished " + (shown + 1) * 100);
        }
        for (var c : members) c.close();
        write(List.of("end 0", "end 1"));
        try (var last = member("explicit")) {
            for (int ends = 0; ends < 2; ) ends += (int) take(last).stream().filter(v -> v.startsWith("end")).count();
        }
        if (RELEASED.isEmpty()) throw new IllegalStateException("no release was answered");
        System.out.println(n + " records, " + RELEASED.size() + " of them released");
    }

    /** Returns the error that a member gets. */
    static String says() throws Exception {
        try (var c = member("implicit")) {
            for (long end = System.nanoTime() + 60_000_000_000L; System.nanoTime() < end; ) c.poll(Duration.ofMillis(500));
        } catch (RuntimeException e) {
            return e.toString();
        }
        return "no error";
    }

    public static void main(String[] args) throws Exception {
        topic = args[0];
        group = args[1];
        if (args[2].equals("says")) System.out.println(says());
        else play(Integer.parseInt(args[2]));
    }
}
