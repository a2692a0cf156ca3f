import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions BOOTSTRAP PREFIX: see ../txn.sh. */
public class Transactions {
    static String bootstrap;

    static KafkaProducer<String, String> producer(String id) {
        KafkaProducer<String, String> p = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap, "transactional.id", id),
            new StringSerializer(), new StringSerializer());
        p.initTransactions();
        return p;
    }

    static List<String> read(String topic, String isolation) {
        List<String> values = new ArrayList<>();
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation);
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            c.assign(all);
            c.seekToBeginning(all);
            Map<TopicPartition, Long> end = c.endOffsets(all);
            while (all.stream().anyMatch(p -> c.position(p) < end.get(p))) c.poll(Duration.ofMillis(100)).forEach(r -> values.add(r.value()));
        }
        values.sort(null);
        return values;
    }

    static void write(KafkaProducer<String, String> p, String topic, String what) {
        p.beginTransaction();
        for (int i = 0; i < 10; i++) p.send(new ProducerRecord<>(topic, i % 2, null, what + i));
    }

    static void check(boolean ok, String what, Object got) {
        if (!ok) throw new IllegalStateException(what + ": " + got);
    }

    static Long committed(Admin admin, String group, TopicPartition at) throws Exception {
        OffsetAndMetadata o = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(at);
        return o == null ? null : o.offset();
    }

    static void run(String prefix) throws Exception {
        String topic = prefix + "-topic", group = prefix + "-group";
        TopicPartition at = new TopicPartition(topic, 0);
        Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap));
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(2), Optional.empty()))).all().get();
        KafkaProducer<String, String> older = producer(prefix + "-id");
        write(older, topic, "a");
        older.commitTransaction();
        write(older, topic, "b");
        older.flush();
        older.abortTransaction();
        List<String> seen = read(topic, "read_committed");
        check(seen.size() == 10 && seen.stream().allMatch(v -> v.startsWith("a")), "committed records", seen);
        check(read(topic, "read_uncommitted").size() == 20, "all records", read(topic, "read_uncommitted"));
        KafkaConsumer<String, String> member = new KafkaConsumer<>(Map.<String, Object>of("bootstrap.servers", bootstrap, "group.id", group),
            new StringDeserializer(), new StringDeserializer());
        for (long offset : new long[] {7, 9}) {
            older.beginTransaction();
            older.sendOffsetsToTransaction(Map.of(at, new OffsetAndMetadata(offset)), member.groupMetadata());
            if (offset == 7) older.commitTransaction(); else older.abortTransaction();
        }
        check(Long.valueOf(7).equals(committed(admin, group, at)), "the group's offset", committed(admin, group, at));
        write(older, topic, "c");
        older.flush();
        KafkaProducer<String, String> newer = producer(prefix + "-id");
        write(newer, topic, "d");
        newer.commitTransaction();
        Throwable refused = null;
        try {
            older.commitTransaction();
        } catch (Exception e) {
            refused = e;
        }
        check(refused instanceof ProducerFencedException || refused instanceof InvalidProducerEpochException, "the older instance", refused);
        seen = read(topic, "read_committed");
        check(seen.size() == 20 && seen.stream().noneMatch(v -> v.startsWith("b") || v.startsWith("c")), "committed records", seen);
        check(admin.listTransactions().all().get().stream().anyMatch(t -> t.transactionalId().equals(prefix + "-id")), "the list of transactions", "without it");
        check(admin.describeTransactions(Set.of(prefix + "-id")).all().get().get(prefix + "-id").topicPartitions().isEmpty(), "the last one", "is open");
        newer.close();
    }

    public static void main(String[] args) {
        bootstrap = args[0];
        try {
            run(args[1]);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
