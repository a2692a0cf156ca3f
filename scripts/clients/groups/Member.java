import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;

/** A member of a group that is Kafka's own consumer; see events.go. */
public class Member {
    static final Map<String, String> ENV = System.getenv();
    static volatile boolean running = true;

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static String places(Collection<TopicPartition> partitions) {
        return partitions.stream().map(p -> p.topic() + ":" + p.partition()).collect(Collectors.joining(" "));
    }

    static Properties config() {
        Properties c = new Properties();
        c.put("bootstrap.servers", ENV.get("BOOTSTRAP"));
        c.put("group.id", ENV.get("GROUP"));
        c.put("client.id", ENV.get("MEMBER"));
        c.put("group.protocol", ENV.get("PROTOCOL"));
        c.put("auto.offset.reset", "earliest");
        c.put("enable.auto.commit", "false");
        c.put("metadata.max.age.ms", "1000");
        c.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        c.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        if (!ENV.get("INSTANCE").isEmpty()) c.put("group.instance.id", ENV.get("INSTANCE"));
        String assignor = ENV.get("ASSIGNOR");
        if (ENV.get("PROTOCOL").equals("consumer")) {
            if (!assignor.isEmpty()) c.put("group.remote.assignor", assignor);
            return c;
        }
        c.put("session.timeout.ms", ENV.get("SESSION_MS"));
        c.put("heartbeat.interval.ms", "500");
        if (!assignor.isEmpty()) c.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        return c;
    }

    static final ConsumerRebalanceListener LISTENER = new ConsumerRebalanceListener() {
        public void onPartitionsAssigned(Collection<TopicPartition> p) { say("A " + places(p)); }
        public void onPartitionsRevoked(Collection<TopicPartition> p) { say("L " + places(p)); }
        public void onPartitionsLost(Collection<TopicPartition> p) { say("L " + places(p)); }
    };

    public static void main(String[] args) throws Exception {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            running = false;
            consumer.wakeup();
            try { main.join(); } catch (InterruptedException e) { Thread.currentThread().interrupt(); }
            // What a signal ended has 143 as its code otherwise.
            Runtime.getRuntime().halt(0);
        }));
        String topic = ENV.get("TOPIC");
        if (!topic.startsWith("^")) consumer.subscribe(java.util.List.of(topic), LISTENER);
        else if (ENV.get("PROTOCOL").equals("consumer")) consumer.subscribe(new SubscriptionPattern(topic), LISTENER);
        else consumer.subscribe(Pattern.compile(topic), LISTENER);
        while (running) {
            try {
                round(consumer);
            } catch (WakeupException e) {
                // asked to stop
            } catch (CommitFailedException | RebalanceInProgressException | TimeoutException e) {
                say("E " + e);
            }
        }
        try {
            consumer.close();
        } catch (KafkaException e) {
            e.printStackTrace();
        }
    }

    static void round(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(500))) {
            say("R " + r.topic() + " " + r.partition() + " " + r.offset() + " " + r.value());
            offsets.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
        }
        if (offsets.isEmpty()) return;
        consumer.commitSync(offsets, Duration.ofSeconds(30));
        offsets.forEach((p, o) -> say("C " + p.topic() + " " + p.partition() + " " + o.offset()));
    }
}
