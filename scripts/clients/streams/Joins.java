import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;

/**
 * Joins BOOTSTRAP PROTOCOL: two applications with every kind of join. Orders name a customer and may have a note;
 * there are orders of unknown customers. The topics have other numbers of partitions, so that foreign-key joins need
 * repartition topics that depend on each other, and copartitioning decides how many partitions they get.
 */
public class Joins {
    static final int ORDERS = 28, CUSTOMERS = 7, KNOWN = 5;

    final String bootstrap, protocol;
    final Map<String, Object> at;
    final Map<String, String> want = new TreeMap<>(), got = new TreeMap<>();

    Joins(String bootstrap, String protocol) {
        this.bootstrap = bootstrap;
        this.protocol = protocol;
        at = Map.of("bootstrap.servers", bootstrap);
    }

    String name(String topic) {
        return "joins-" + protocol + "-" + topic;
    }

    static void emit(KStream<String, String> s, String join, String to) {
        s.filter((k, v) -> v != null).map((k, v) -> KeyValue.pair(join + "/" + k, v)).to(to);
    }

    /** Tables: by key, by foreign key, and by foreign key with a repartitioned left side. */
    void tables(StreamsBuilder b) {
        KTable<String, String> orders = b.table(name("orders")), customers = b.table(name("customers")), notes = b.table(name("notes"));
        emit(orders.join(notes, (o, n) -> o + "+" + n).toStream(), "inner", name("out"));
        emit(orders.leftJoin(notes, (o, n) -> o + "+" + n).toStream(), "left", name("out"));
        emit(orders.outerJoin(notes, (o, n) -> o + "+" + n).toStream(), "outer", name("out"));
        emit(orders.join(customers, o -> o, (o, c) -> o + "+" + c).toStream(), "foreign", name("out"));
        emit(orders.leftJoin(customers, o -> o, (o, c) -> o + "+" + c).toStream(), "foreign-left", name("out"));
        KTable<String, String> grouped = orders.groupBy((k, o) -> KeyValue.pair(o, o)).reduce((x, y) -> y, (x, y) -> x);
        emit(grouped.leftJoin(customers, o -> o, (o, c) -> o + "+" + c).toStream(), "grouped", name("out"));
    }

    /** Streams: with a stream, a table, a global table, and a table after a change of the key. */
    void streams(StreamsBuilder b) {
        KStream<String, String> orders = b.stream(name("orders")), notes = b.stream(name("notes"));
        KTable<String, String> customers = b.table(name("customers"));
        GlobalKTable<String, String> known = b.globalTable(name("global"));
        JoinWindows hour = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofHours(1));
        emit(orders.join(notes, (o, n) -> o + "+" + n, hour), "window", name("out"));
        emit(orders.leftJoin(notes, (o, n) -> o + "+" + n, hour), "window-left", name("out"));
        emit(orders.outerJoin(notes, (o, n) -> o + "+" + n, hour), "window-outer", name("out"));
        emit(orders.join(known, (k, o) -> o, (o, c) -> o + "+" + c), "global", name("out"));
        emit(orders.leftJoin(known, (k, o) -> o, (o, c) -> o + "+" + c), "global-left", name("out"));
        // Whether the table's record comes first is not decided.
        emit(orders.selectKey((k, o) -> o).leftJoin(customers, (o, c) -> o), "keyed", name("out"));
        emit(orders.leftJoin(b.<String, String>table(name("remarks")), (o, n) -> o), "table", name("out"));
    }

    KafkaStreams start(String application, StreamsBuilder b, Path dir) {
        Properties c = new Properties();
        c.put(StreamsConfig.APPLICATION_ID_CONFIG, name(application));
        c.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        c.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        c.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, -1);
        c.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
        c.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        c.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        c.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, protocol);
        c.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        c.put(StreamsConfig.topicPrefix("internal.segment.bytes"), "2097152"); // for tests, as Kafka's own set it
        KafkaStreams s = new KafkaStreams(b.build(c), c);
        s.setUncaughtExceptionHandler(e -> {
            System.out.println("uncaught: " + e);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        s.start();
        return s;
    }

    /** Writes the orders, customers and notes, and what the joins must have in the end. */
    void write() {
        try (KafkaProducer<String, String> p = new KafkaProducer<>(at, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < KNOWN; i++) for (String t : List.of("customers", "global")) p.send(new ProducerRecord<>(name(t), "c" + i, "name" + i));
            for (int i = 0; i < ORDERS; i++) {
                String order = "o" + i, customer = "c" + i % CUSTOMERS, of = i % CUSTOMERS < KNOWN ? "name" + i % CUSTOMERS : null;
                String note = i % 2 == 0 ? "note" + i : null;
                p.send(new ProducerRecord<>(name("orders"), order, customer));
                if (note != null) for (String t : List.of("notes", "remarks")) p.send(new ProducerRecord<>(name(t), order, note));
                for (String j : List.of("left", "outer")) want.put(j + "/" + order, customer + "+" + note);
                for (String j : List.of("inner", "window", "window-left", "window-outer")) if (note != null) want.put(j + "/" + order, customer + "+" + note);
                for (String j : List.of("foreign-left", "global-left")) want.put(j + "/" + order, customer + "+" + of);
                for (String j : List.of("foreign", "global")) if (of != null) want.put(j + "/" + order, customer + "+" + of);
                want.put("table/" + order, customer);
                want.put("keyed/" + customer, customer);
                want.put("grouped/" + customer, customer + "+" + of);
            }
        }
    }

    void run() throws Exception {
        try (Admin admin = Admin.create(at); KafkaConsumer<String, String> reader = new KafkaConsumer<>(at, new StringDeserializer(), new StringDeserializer())) {
            Map<String, Integer> topics = Map.of("orders", 3, "notes", 3, "remarks", 3, "customers", 5, "global", 2, "out", 1);
            List<NewTopic> list = new ArrayList<>();
            topics.forEach((t, n) -> list.add(new NewTopic(name(t), Optional.of(n), Optional.empty())));
            admin.createTopics(list).all().get();
            write();
            StreamsBuilder tables = new StreamsBuilder(), streams = new StreamsBuilder();
            tables(tables);
            streams(streams);
            Path one = Files.createTempDirectory("joins-one"), two = Files.createTempDirectory("joins-two");
            KafkaStreams first = start("tables", tables, one), second = start("streams", streams, two);
            reader.assign(List.of(new TopicPartition(name("out"), 0)));
            reader.seekToBeginning(reader.assignment());
            Map<String, String> missing = new HashMap<>();
            long end = System.currentTimeMillis() + 180_000;
            do {
                reader.poll(Duration.ofMillis(200)).forEach(r -> got.put(r.key(), r.value()));
                missing.clear();
                want.forEach((k, v) -> { if (!v.equals(got.get(k))) missing.put(k, v + ", not " + got.get(k)); });
                if (System.currentTimeMillis() > end) throw new IllegalStateException("not within 3 minutes: " + missing + "; " + first.state() + ", " + second.state());
            } while (!missing.isEmpty());
            System.out.println(want.size() + " results of joins are right");
            first.close(Duration.ofSeconds(60));
            second.close(Duration.ofSeconds(60));
            Utils.delete(one.toFile());
            Utils.delete(two.toFile());
        }
    }

    public static void main(String[] args) {
        int code = 0;
        try {
            new Joins(args[0], args[1]).run();
        } catch (Throwable e) {
            e.printStackTrace(System.out);
            code = 1;
        }
        System.exit(code);
    }
}
