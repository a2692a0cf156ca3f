// A member of a group that is kafkajs's consumer; see events.go.
const { Kafka, logLevel } = require('kafkajs');

const env = process.env;
const say = (...words) => process.stdout.write(words.join(' ') + '\n');

// commitOffsets asks the former coordinator until its retries are used up; only then does kafkajs
// look for the new one. A single broker has no other, and must only be waited for.
const brokers = env.BOOTSTRAP.split(',');
const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: brokers.length > 1 ? 5 : 100 };
const kafka = new Kafka({
  clientId: env.MEMBER,
  brokers,
  logLevel: logLevel.WARN,
  logCreator: () => ({ log }) => process.stderr.write(JSON.stringify(log) + '\n'),
  retry,
});
const consumer = kafka.consumer({
  groupId: env.GROUP,
  sessionTimeout: Number(env.SESSION_MS),
  heartbeatInterval: 500,
  metadataMaxAge: 1000,
  maxWaitTimeInMs: 500,
  retry,
});

let has = [];
const lose = () => {
  if (has.length > 0) say('L', ...has);
  has = [];
};
consumer.on(consumer.events.REBALANCING, lose);
consumer.on(consumer.events.CRASH, ({ payload }) => {
  say('E crash:', payload.error, 'restart:', payload.restart);
  lose();
});
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  lose();
  has = Object.entries(payload.memberAssignment).flatMap(([t, ps]) => ps.map((p) => `${t}:${p}`));
  say('A', ...has);
});

async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
  if (!isRunning() || isStale()) return;
  let next = null;
  for (const m of batch.messages) {
    say('R', batch.topic, batch.partition, m.offset, m.value.toString());
    resolveOffset(m.offset);
    next = (BigInt(m.offset) + 1n).toString();
  }
  if (next !== null) {
    await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset: next }]);
    say('C', batch.topic, batch.partition, next);
  }
  await heartbeat();
}

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: [env.TOPIC.startsWith('^') ? new RegExp(env.TOPIC) : env.TOPIC], fromBeginning: true });
  await consumer.run({ autoCommit: false, eachBatch });
}

process.once('SIGTERM', async () => {
  await consumer.disconnect();
  process.exit(0);
});
main().catch((e) => {
  process.stderr.write(`${e.stack}\n`);
  process.exit(1);
});
