import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Clients BOOTSTRAP TOPIC ID STOP: writes and reads records until STOP exists; see ../telemetry.sh. */
public class Clients {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1], id = args[2];
        Path stop = Path.of(args[3]);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap, "client.id", id + "-producer"), new StringSerializer(), new StringSerializer());
            KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrap, "client.id", id + "-consumer", "group.id", id, "auto.offset.reset", "earliest"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + 180_000_000_000L;
            while (!Files.exists(stop) && System.nanoTime() < end) {
                producer.send(new ProducerRecord<>(topic, "value"));
                consumer.poll(Duration.ofMillis(50));
            }
        }
    }
}
