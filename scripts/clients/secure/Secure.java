import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Secure CASE...: logs in with kafka-clients in each way; see ../secure.sh, which makes the settings. */
public class Secure {
    static final String KEYS = System.getenv("KEYS");

    static Properties settings(String name, String... over) throws Exception {
        Properties p = new Properties();
        try (var in = new FileReader(KEYS + "/" + name + ".properties")) { p.load(in); }
        for (int i = 0; i < over.length; i += 2) p.setProperty(over[i], over[i + 1]);
        return p;
    }

    static void life(Properties p, String topic) throws Exception {
        Properties with = new Properties();
        with.putAll(p);
        with.put("transactional.id", topic);
        try (var producer = new KafkaProducer<>(with, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(topic, "value " + i));
            producer.commitTransaction();
        }
        consume(p, topic, topic);
    }

    static void consume(Properties p, String topic, String group) {
        Properties with = new Properties();
        with.putAll(p);
        with.putAll(Map.of("group.id", group, "group.protocol", "consumer", "auto.offset.reset", "earliest", "enable.auto.commit", "false",
            "isolation.level", "read_committed"));
        try (var consumer = new KafkaConsumer<>(with, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int n = 0; n < 10; ) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofSeconds(1))) {
                    if (!r.value().equals("value " + n++)) throw new IllegalStateException("read " + r.value());
                }
            }
            consumer.commitSync();
        }
    }

    static void produce(Properties p, String topic) throws Exception {
        try (var producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "value")).get(60, TimeUnit.SECONDS);
        }
    }

    static void play(String name) throws Exception {
        switch (name) {
            case "scram", "mtls", "oauth" -> life(settings(name), "open-java-" + name);
            case "wrong-password" -> produce(settings("scram", "sasl.jaas.config",
                "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"wrong\";"), "hidden");
            case "wrong-ca" -> produce(settings("scram", "ssl.truststore.location", KEYS + "/stranger.pem"), "hidden");
            case "no-certificate" -> {
                Properties p = settings("mtls");
                p.remove("ssl.keystore.location");
                p.remove("ssl.keystore.type");
                produce(p, "hidden");
            }
            case "forged" -> produce(settings("oauth", "sasl.oauthbearer.token.endpoint.url", "file://" + KEYS + "/forged"), "hidden");
            case "unsigned" -> {
                Properties p = settings("oauth", "sasl.jaas.config", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
                    + " required unsecuredLoginStringClaim_sub=\"robot\";");
                p.remove("sasl.login.callback.handler.class");
                produce(p, "hidden");
            }
            case "hidden-topic" -> produce(settings("scram"), "hidden");
            case "hidden-group" -> consume(settings("scram"), "open-java-scram", "hidden");
            default -> throw new IllegalArgumentException("no such case");
        }
    }

    public static void main(String[] args) {
        for (String name : args) {
            String result = "ok";
            try {
                play(name);
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                result = String.valueOf(cause).replace('\n', ' ');
                if (cause.getCause() != null) result += ": " + String.valueOf(cause.getCause()).replace('\n', ' ');
            }
            System.out.println(name + ": " + result);
        }
        System.exit(0);
    }
}
