import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.annotation.DltHandler;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.config.KafkaListenerEndpointRegistry;
import org.springframework.kafka.config.ShareKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.DefaultShareConsumerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.ContainerProperties.ShareAckMode;
import org.springframework.kafka.support.ShareAcknowledgment;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.transaction.annotation.EnableTransactionManagement;

/**
 * Listener BOOTSTRAP: listener containers of Spring for Kafka. Prints a line "case pass" or "case fail reason" for each
 * case. The group's protocol is the consumer protocol (KIP-848) in one listener, the classic one in the others, and two listeners
 * are share groups (KIP-932).
 */
public class Listener {
  static final int RECORDS = 400;
  static String bootstrap;

  @Configuration
  @EnableKafka
  static class Config {
    final Set<String> plain = ConcurrentHashMap.newKeySet();
    final Set<String> modern = ConcurrentHashMap.newKeySet();
    final ConcurrentLinkedQueue<String> committed = new ConcurrentLinkedQueue<>();
    final AtomicInteger tries = new AtomicInteger();
    final AtomicInteger dead = new AtomicInteger();
    final AtomicInteger failures = new AtomicInteger();
    final Map<String, AtomicInteger> shared = new ConcurrentHashMap<>();
    final Map<String, AtomicInteger> decided = new ConcurrentHashMap<>();
    final AtomicInteger accepted = new AtomicInteger();

    @Bean KafkaAdmin admin() { return new KafkaAdmin(Map.of("bootstrap.servers", bootstrap)); }
    @Bean NewTopic in() { return new NewTopic("spring-in", 6, (short) 1); }
    @Bean NewTopic out() { return new NewTopic("spring-out", 2, (short) 1); }
    @Bean NewTopic retry() { return new NewTopic("spring-retry", 1, (short) 1); }
    @Bean NewTopic queue() { return new NewTopic("spring-queue", 4, (short) 1); }
    @Bean TaskScheduler scheduler() { return new ThreadPoolTaskScheduler(); }

    static Map<String, Object> producer() {
      return Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap, ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class,
          ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
    }

    static Map<String, Object> consumer(String... more) {
      Map<String, Object> config = new java.util.HashMap<>(Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
          ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
          ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
          ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest", ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed"));
      for (int i = 0; i < more.length; i += 2) config.put(more[i], more[i + 1]);
      return config;
    }

    @Bean KafkaTemplate<String, String> template() { return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(producer())); }

    @Bean ProducerFactory<String, String> transactional() {
      DefaultKafkaProducerFactory<String, String> factory = new DefaultKafkaProducerFactory<>(producer());
      factory.setTransactionIdPrefix("spring-");
      return factory;
    }

    @Bean KafkaTemplate<String, String> inTransaction() { return new KafkaTemplate<>(transactional()); }

    static ConcurrentKafkaListenerContainerFactory<String, String> factory(String... more) {
      ConcurrentKafkaListenerContainerFactory<String, String> factory = new ConcurrentKafkaListenerContainerFactory<>();
      factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(consumer(more)));
      return factory;
    }

    @Bean ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() { return factory(); }

    @Bean ConcurrentKafkaListenerContainerFactory<String, String> modernFactory() { return factory("group.protocol", "consumer"); }

    @Bean ConcurrentKafkaListenerContainerFactory<String, String> exactlyOnce() {
      ConcurrentKafkaListenerContainerFactory<String, String> factory = factory();
      factory.getContainerProperties().setKafkaAwareTransactionManager(new KafkaTransactionManager<>(transactional()));
      return factory;
    }

    @KafkaListener(topics = "spring-in", groupId = "spring-plain", concurrency = "3")
    void plain(ConsumerRecord<String, String> record) { plain.add(record.value()); }

    @KafkaListener(topics = "spring-in", groupId = "spring-modern", concurrency = "3", containerFactory = "modernFactory")
    void modern(ConsumerRecord<String, String> record) { modern.add(record.value()); }

    /** Copies each record in a transaction with its offset; the first times with some records it fails after it has written. */
    @KafkaListener(id = "copy", topics = "spring-in", groupId = "spring-copy", containerFactory = "exactlyOnce")
    void copy(ConsumerRecord<String, String> record) {
      inTransaction().send("spring-out", record.key(), record.value());
      if (record.value().endsWith("77") && failures.incrementAndGet() <= 5) throw new IllegalStateException("a failure of the judge's");
    }

    @KafkaListener(topics = "spring-out", groupId = "spring-check")
    void check(ConsumerRecord<String, String> record) { committed.add(record.value()); }

    @RetryableTopic(attempts = "3", backOff = @BackOff(delay = 200), kafkaTemplate = "template")
    @KafkaListener(topics = "spring-retry", groupId = "spring-retry")
    void failing(ConsumerRecord<String, String> record) {
      tries.incrementAndGet();
      throw new IllegalStateException("a failure of the judge's");
    }

    @DltHandler
    void dead(ConsumerRecord<String, String> record) { dead.incrementAndGet(); }

    static ShareKafkaListenerContainerFactory<String, String> share(ShareAckMode mode) {
      ShareKafkaListenerContainerFactory<String, String> factory = new ShareKafkaListenerContainerFactory<>(
          new DefaultShareConsumerFactory<>(Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
              ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
              ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class)));
      factory.getContainerProperties().setShareAckMode(mode);
      factory.setShareConsumerRecordRecoverer((record, e) -> AcknowledgeType.RELEASE);
      factory.setAutoStartup(false); // main sets the group's config first
      return factory;
    }

    @Bean ShareKafkaListenerContainerFactory<String, String> shareFactory() { return share(ShareAckMode.EXPLICIT); }

    @Bean ShareKafkaListenerContainerFactory<String, String> manualFactory() { return share(ShareAckMode.MANUAL); }

    static int deliveries(Map<String, AtomicInteger> counts, String value) {
      return counts.computeIfAbsent(value, v -> new AtomicInteger()).incrementAndGet();
    }

    /** Three consumers of one share group; what fails is released, and comes again. */
    @KafkaListener(id = "workers", topics = "spring-queue", groupId = "spring-workers", concurrency = "3",
        containerFactory = "shareFactory")
    void work(ConsumerRecord<String, String> record) {
      if (deliveries(shared, record.value()) == 1 && record.value().endsWith("77"))
        throw new IllegalStateException("a failure of the judge's");
    }

    /** Releases some records when they come for the first time, rejects some, renews the lock of some, and accepts the others. */
    @KafkaListener(id = "deciders", topics = "spring-queue", groupId = "spring-deciders", containerFactory = "manualFactory")
    void decide(ConsumerRecord<String, String> record, ShareAcknowledgment acknowledgment) {
      int delivery = deliveries(decided, record.value());
      if (record.value().endsWith("77") && delivery == 1) {
        acknowledgment.release();
      } else if (record.value().endsWith("33")) {
        acknowledgment.reject();
      } else {
        if (record.value().endsWith("55")) acknowledgment.renew();
        acknowledgment.acknowledge();
        accepted.incrementAndGet();
      }
    }

    /** Reports whether all records came, and those whose values end with 77 twice. */
    static boolean complete(Map<String, AtomicInteger> counts) {
      return counts.size() == RECORDS &&
          counts.entrySet().stream().allMatch(e -> e.getValue().get() == (e.getKey().endsWith("77") ? 2 : 1));
    }

    static String state(Map<String, AtomicInteger> counts) {
      return counts.size() + " records, " + counts.values().stream().mapToInt(AtomicInteger::get).sum() + " deliveries";
    }
  }

  static void check(String name, BooleanSupplier done, java.util.function.Supplier<String> state) throws InterruptedException {
    for (long end = System.nanoTime() + 120_000_000_000L; System.nanoTime() < end; Thread.sleep(100)) {
      if (done.getAsBoolean()) {
        System.out.println(name + "\tpass\t");
        return;
      }
    }
    System.out.println(name + "\tfail\tnot within two minutes: " + state.get());
  }

  /** Starts the listeners of share groups, which read from the beginning. */
  static void startWorkers(KafkaListenerEndpointRegistry registry) throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
      for (String group : List.of("spring-workers", "spring-deciders"))
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group),
            List.of(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
    }
    for (String id : List.of("workers", "deciders")) registry.getListenerContainer(id).start();
  }

  public static void main(String[] args) throws Exception {
    bootstrap = args[0];
    try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Config.class)) {
      Config config = context.getBean(Config.class);
      for (int i = 0; i < RECORDS; i++) config.template().send("spring-in", "key" + i % 50, "value" + i);
      config.template().send("spring-retry", "key", "value").get();
      config.template().flush();
      startWorkers(context.getBean(KafkaListenerEndpointRegistry.class));
      for (int i = 0; i < RECORDS; i++) config.template().send("spring-queue", "key" + i % 50, "value" + i);
      config.template().flush();
      check("listener-classic", () -> config.plain.size() == RECORDS, () -> config.plain.size() + " records");
      check("listener-consumer-protocol", () -> config.modern.size() == RECORDS, () -> config.modern.size() + " records");
      check("retry-topics", () -> config.tries.get() >= 3 && config.dead.get() >= 1, () -> config.tries + " tries, " + config.dead + " dead");
      check("share-containers", () -> Config.complete(config.shared), () -> Config.state(config.shared));
      check("share-acknowledgments", () -> Config.complete(config.decided) && config.accepted.get() == RECORDS - RECORDS / 100,
          () -> Config.state(config.decided) + ", " + config.accepted + " accepted");
      check("exactly-once-delivers", () -> Set.copyOf(config.committed).size() == RECORDS, () -> config.committed.size() + " records");
      // What came twice would have come before the container has stopped.
      context.getBean(KafkaListenerEndpointRegistry.class).getListenerContainer("copy").stop();
      config.inTransaction().executeInTransaction(t -> t.send("spring-out", 0, "end", "end0"));
      config.inTransaction().executeInTransaction(t -> t.send("spring-out", 1, "end", "end1"));
      check("exactly-once", () -> config.committed.contains("end0") && config.committed.contains("end1"), () -> "the last records did not come");
      if (config.committed.size() != RECORDS + 2 || config.failures.get() < 5)
        System.out.println("exactly-once\tfail\t" + (config.committed.size() - 2) + " records instead of " + RECORDS + ", " + config.failures + " failures");
    }
  }
}
