// Transactions of kafkajs; see ../txn.sh.
'use strict';
const { Kafka, logLevel } = require('kafkajs');

const kafka = new Kafka({ clientId: 'txn', brokers: process.env.BOOTSTRAP.split(','), logLevel: logLevel.NOTHING });
const prefix = process.argv[2];
const topic = `${prefix}-topic`, group = `${prefix}-group`;

function check(ok, what, got) {
  if (!ok) throw new Error(`${what}: ${JSON.stringify(got)}`);
}

// What the broker refuses while it still ends the transaction before, or while a partition of the
// groups gets its first leader. kafkajs repeats the first for some requests only, and compares the
// others with names that its own table of errors does not have.
const temporary = ['CONCURRENT_TRANSACTIONS', 'GROUP_LOAD_IN_PROGRESS', 'GROUP_COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR_FOR_GROUP'];

// patiently repeats what was refused with a temporary error, for a minute at most.
async function patiently(ask) {
  const end = Date.now() + 60000;
  for (;;) {
    try {
      return await ask();
    } catch (e) {
      if (!temporary.includes(e.type) || Date.now() > end) throw e;
      await new Promise((resolve) => { setTimeout(resolve, 10); });
    }
  }
}

async function producer() {
  const p = kafka.producer({ transactionalId: `${prefix}-id`, maxInFlightRequests: 1, idempotent: true });
  await p.connect();
  return p;
}

async function write(p, what) {
  const t = await p.transaction();
  const messages = [...Array(10).keys()].map((i) => ({ partition: i % 2, value: what + i }));
  await patiently(() => t.send({ topic, messages }));
  return t;
}

// read returns the values up to the mark that the caller has written to both partitions.
async function read(admin, uncommitted) {
  const ends = (await admin.fetchTopicOffsets(topic)).map((p) => Number(p.offset));
  const c = kafka.consumer({ groupId: `${prefix}-${uncommitted}-${Math.random()}`, readUncommitted: uncommitted });
  await c.connect();
  await c.subscribe({ topic, fromBeginning: true });
  const values = [], at = [0, 0];
  await new Promise((resolve, reject) => {
    c.on(c.events.CRASH, (e) => reject(e.payload.error));
    c.on(c.events.END_BATCH_PROCESS, (e) => { // its last offset includes markers
      at[e.payload.partition] = Number(e.payload.lastOffset) + 1;
      if (at.every((n, p) => n >= ends[p])) resolve();
    });
    c.run({ eachBatchAutoResolve: true, eachBatch: async ({ batch }) => { batch.messages.forEach((m) => values.push(m.value.toString())); } });
  });
  await c.disconnect();
  return values.sort();
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 2, replicationFactor: -1 }] });
  const older = await producer();
  await (await write(older, 'a')).commit();
  await (await write(older, 'b')).abort();
  for (const offset of ['7', '9']) {
    const t = await older.transaction();
    const topics = [{ topic, partitions: [{ partition: 0, offset }] }];
    await patiently(() => t.sendOffsets({ consumerGroupId: group, topics }));
    await (offset === '7' ? t.commit() : t.abort());
  }
  const got = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  const committed = got[0].partitions.find((p) => p.partition === 0).offset;
  check(committed === '7', 'the offset of the group', committed);
  const open = await write(older, 'c');
  const newer = await producer();
  await (await write(newer, 'd')).commit();
  let refused = null;
  try {
    await open.commit();
  } catch (e) {
    refused = e;
  }
  check(/epoch|fenced|INVALID_PRODUCER_EPOCH|PRODUCER_FENCED/i.test(`${refused && refused.type} ${refused && refused.message}`), 'the older instance', String(refused));
  const seen = await read(admin, false);
  check(seen.length === 20 && seen.every((v) => 'ad'.includes(v[0])), 'committed records', seen);
  const all = await read(admin, true);
  check(all.length === 40, 'all records', all);
  process.exit(0);
}

main().catch((e) => {
  console.error(e.stack);
  process.exit(1);
});
