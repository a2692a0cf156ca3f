import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copy BOOTSTRAP FROM TO DIR: a job that copies a topic to another, exactly once, with checkpoints in DIR. It fails several
 * times, and begins again at the last checkpoint. Ends when it has reached the end that the topic had at first.
 */
public class Copy {
  static final AtomicInteger seen = new AtomicInteger();
  static final AtomicInteger failures = new AtomicInteger();

  static class Failing implements MapFunction<String, String> {
    @Override
    public String map(String value) throws Exception {
      if (seen.incrementAndGet() % 100 == 0) Thread.sleep(20); // the job goes on for several checkpoints
      if (seen.get() % 4000 == 0 && failures.incrementAndGet() <= 3) throw new IllegalStateException("a failure of the judge's");
      return value;
    }
  }

  public static void main(String[] args) throws Exception {
    Configuration config = new Configuration();
    config.setString("restart-strategy.type", "fixed-delay");
    config.setString("restart-strategy.fixed-delay.attempts", "10");
    config.setString("restart-strategy.fixed-delay.delay", "100 ms");
    config.setString("execution.checkpointing.dir", Path.of(args[3]).toUri().toString());
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, config);
    env.enableCheckpointing(500, CheckpointingMode.EXACTLY_ONCE);
    KafkaSource<String> source = KafkaSource.<String>builder().setBootstrapServers(args[0]).setTopics(args[1]).setGroupId("flink")
        .setStartingOffsets(OffsetsInitializer.earliest()).setBounded(OffsetsInitializer.latest())
        .setValueOnlyDeserializer(new SimpleStringSchema()).build();
    KafkaSink<String> sink = KafkaSink.<String>builder().setBootstrapServers(args[0]).setTransactionalIdPrefix("flink-judge")
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE).setProperty("transaction.timeout.ms", "300000")
        .setRecordSerializer(KafkaRecordSerializationSchema.builder().setTopic(args[2]).setValueSerializationSchema(new SimpleStringSchema()).build())
        .build();
    env.fromSource(source, WatermarkStrategy.noWatermarks(), "source").map(new Failing()).sinkTo(sink);
    env.execute("copy");
    System.out.println(failures.get() >= 3 ? "done" : "the job failed only " + failures.get() + " times");
    System.exit(failures.get() >= 3 ? 0 : 1);
  }
}
