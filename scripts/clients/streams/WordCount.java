import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * WordCount BOOTSTRAP LINES PROTOCOL GUARANTEE: a stateful word count. One instance, then two, then the second alone,
 * which gets the state of the first from the changelog; up to here the counts must be exact, for nothing crashed.
 * Then it prints KILL and reads a line from its input: the broker was killed meanwhile. Nothing may be lost by
 * that, though it may count twice unless it is exactly once. The repartition topic must have been purged and the changelog be compacted.
 */
public class WordCount {
    static final int PARTITIONS = 3;
    static final String[] WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split(" ");

    final String bootstrap, guarantee;
    final String ID, IN, OUT, REPARTITION, CHANGELOG;
    final boolean exact;
    final Admin admin;
    final KafkaProducer<String, String> producer;
    final KafkaConsumer<String, Long> reader;
    final Map<String, Long> want = new TreeMap<>();
    final Map<String, Long> got = new TreeMap<>();
    final Random random = new Random(4);

    final String protocol; // classic or streams (KIP-1071)

    WordCount(String bootstrap, String protocol, String guarantee) {
        this.bootstrap = bootstrap;
        this.protocol = protocol;
        this.guarantee = guarantee;
        exact = !guarantee.equals(StreamsConfig.AT_LEAST_ONCE);
        ID = exact ? "words-exactly-once" : "words";
        IN = ID + "-in";
        OUT = ID + "-out";
        REPARTITION = ID + "-counts-repartition";
        CHANGELOG = ID + "-counts-changelog";
        Map<String, Object> at = Map.of("bootstrap.servers", bootstrap, "isolation.level", exact ? "read_committed" : "read_uncommitted");
        admin = Admin.create(at);
        producer = new KafkaProducer<>(at, new StringSerializer(), new StringSerializer());
        reader = new KafkaConsumer<>(at, new StringDeserializer(), new LongDeserializer());
    }

    KafkaStreams start(Path dir) {
        Properties c = new Properties();
        c.put(StreamsConfig.APPLICATION_ID_CONFIG, ID);
        c.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        c.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        c.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        c.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 1000);
        c.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, -1);
        c.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
        c.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        c.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // It does not leave its group when it is closed: whoever takes over waits for this.
        if (protocol.equals("classic")) c.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        c.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, protocol);
        c.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder b = new StreamsBuilder();
        b.<String, String>stream(IN).flatMapValues(v -> Arrays.asList(v.split(" "))).groupBy((k, w) -> w)
            .count(Materialized.as("counts")).toStream().to(OUT, Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams s = new KafkaStreams(b.build(c), c);
        s.setUncaughtExceptionHandler(e -> {
            System.out.println("uncaught: " + e);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        s.start();
        return s;
    }

    void write(int lines) {
        for (int i = 0; i < lines; i++) {
            StringBuilder line = new StringBuilder();
            for (int k = 0; k < 3; k++) {
                String w = WORDS[random.nextInt(WORDS.length)];
                line.append(k > 0 ? " " : "").append(w);
                want.merge(w, 1L, Long::sum);
            }
            producer.send(new ProducerRecord<>(IN, "line" + i % 50, line.toString()));
        }
        producer.flush();
    }

    /** Reads counts until they are right. */
    void expect(String what, boolean exactly) {
        await(what + ": " + want, () -> {
            reader.poll(Duration.ofMillis(200)).forEach(r -> got.put(r.key(), r.value()));
            return exactly ? got.equals(want) : want.entrySet().stream().allMatch(e -> got.getOrDefault(e.getKey(), 0L) >= e.getValue());
        });
        if (exactly) { // and stay so
            long until = System.currentTimeMillis() + 1000;
            while (System.currentTimeMillis() < until) reader.poll(Duration.ofMillis(200)).forEach(r -> got.put(r.key(), r.value()));
            if (!got.equals(want)) throw new IllegalStateException(what + ": counted " + got + ", not " + want);
        }
        System.out.println(what + ": " + got);
    }

    void await(String what, BooleanSupplier ok) {
        long end = System.currentTimeMillis() + 180_000;
        while (!ok.getAsBoolean()) {
            if (System.currentTimeMillis() > end) throw new IllegalStateException("not within 3 minutes: " + what + "; counted " + got);
            try {
                Thread.sleep(50);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    String config(String topic, String name) throws Exception {
        ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(r)).all().get().get(r).get(name).value();
    }

    long begins(String topic) {
        try {
            Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
            for (int p = 0; p < PARTITIONS; p++) ask.put(new TopicPartition(topic, p), OffsetSpec.earliest());
            return admin.listOffsets(ask).all().get().values().stream().mapToLong(o -> o.offset()).sum();
        } catch (Exception e) {
            return -1; // asked again
        }
    }

    void run(int lines) throws Exception {
        admin.createTopics(List.of(new NewTopic(IN, Optional.of(PARTITIONS), Optional.empty()), new NewTopic(OUT, Optional.of(PARTITIONS), Optional.empty()))).all().get();
        List<TopicPartition> out = new ArrayList<>();
        for (int p = 0; p < PARTITIONS; p++) out.add(new TopicPartition(OUT, p));
        reader.assign(out);
        reader.seekToBeginning(out);
        Path one = Files.createTempDirectory("words-one"), two = Files.createTempDirectory("words-two");
        KafkaStreams first = start(one);
        write(lines);
        expect("one instance", true);
        KafkaStreams second = start(two);
        await("both run", () -> first.state() == KafkaStreams.State.RUNNING && second.state() == KafkaStreams.State.RUNNING && !second.metadataForLocalThreads().isEmpty());
        write(lines);
        expect("two instances", true);
        first.close(Duration.ofSeconds(60));
        write(lines);
        expect("the second alone, with the state of the first", true);
        if (!config(CHANGELOG, "cleanup.policy").equals("compact")) throw new IllegalStateException("the changelog is not compacted");
        if (!config(REPARTITION, "cleanup.policy").equals("delete") || !config(REPARTITION, "retention.ms").equals("-1")) throw new IllegalStateException("the repartition topic's configs are others");
        await("the repartition topic is purged", () -> begins(REPARTITION) > 0);
        System.out.println("KILL");
        if (System.in.read() < 0) throw new IllegalStateException("nobody killed the broker");
        write(lines);
        expect("after the broker was killed", exact);
        KafkaStreams third = start(one);
        write(lines);
        second.close(Duration.ofSeconds(60));
        Utils.delete(two.toFile());
        write(lines);
        expect("another, with the state of the second", exact);
        third.close(Duration.ofSeconds(60));
        Utils.delete(one.toFile());
    }

    public static void main(String[] args) {
        int code = 0;
        try {
            new WordCount(args[0], args[2], args[3]).run(Integer.parseInt(args[1]));
        } catch (Throwable e) {
            e.printStackTrace(System.out);
            code = 1;
        }
        System.exit(code);
    }
}
