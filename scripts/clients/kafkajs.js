// An idempotent producer of kafkajs writes the lines of its input; see kafkajs.sh.
const readline = require('node:readline');
const { Kafka, CompressionTypes, Partitioners, logLevel } = require('kafkajs');

const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: Number.MAX_SAFE_INTEGER };
const kafka = new Kafka({ brokers: process.env.BOOTSTRAP.split(','), logLevel: logLevel.WARN, retry });
const producer = kafka.producer({
  idempotent: true, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner, retry,
});

async function main() {
  await producer.connect();
  let messages = [];
  const send = async () => {
    if (messages.length === 0) return;
    await producer.send({ topic: process.argv[2], acks: -1, compression: CompressionTypes.GZIP, messages });
    messages = [];
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    messages.push({ key: line.split(' ')[0], value: line });
    if (messages.length >= 200) await send();
  }
  await send();
  await producer.disconnect();
}

main().catch((e) => {
  console.error('not acknowledged:', e.message);
  process.exit(1);
});
