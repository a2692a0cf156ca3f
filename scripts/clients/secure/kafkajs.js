// Logs in with kafkajs in each way: see ../secure.sh. Its settings stand in docs/clients.md.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { Kafka, logLevel } = require('kafkajs');

const read = (name) => fs.readFileSync(path.join(process.env.KEYS, name), 'utf8').trim();
const common = { logLevel: logLevel.NOTHING, retry: { retries: 2 } };

const withPassword = (password, ca) => new Kafka({
  ...common,
  brokers: [process.env.SCRAM],
  ssl: { ca: [ca] },
  sasl: { mechanism: 'scram-sha-512', username: 'alice', password },
});

const withCertificate = (ca, certificate, key) => new Kafka({
  ...common,
  brokers: [process.env.MTLS],
  ssl: { ca: [ca], cert: certificate, key },
});

const withToken = (token, ca) => new Kafka({
  ...common,
  brokers: [process.env.OAUTH],
  ssl: { ca: [ca] },
  sasl: { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token }) },
});

async function life(kafka, topic) {
  const producer = kafka.producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const transaction = await producer.transaction();
  await transaction.send({ topic, messages: [...Array(10).keys()].map((i) => ({ value: `value ${i}` })) });
  await transaction.commit();
  await producer.disconnect();
  await consume(kafka, topic, topic);
}

async function consume(kafka, topic, groupId) {
  const consumer = kafka.consumer({ groupId });
  try {
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    let n = 0;
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, (e) => reject(e.payload.error));
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (message.value.toString() !== `value ${n}`) throw new Error(`read ${message.value}`);
          n += 1;
          if (n < 10) return;
          await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }]);
          resolve();
        },
      }).catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
}

async function produce(kafka, topic) {
  const producer = kafka.producer();
  try {
    await producer.connect();
    await producer.send({ topic, messages: [{ value: 'value' }] });
  } finally {
    await producer.disconnect();
  }
}

// A token as clients make them for tests: alg none, and no signature.
const unsigned = 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb2JvdCIsImF1ZCI6ImNocm9uaWsiLCJleHAiOjk5OTk5OTk5OTl9.';

function play(name) {
  const ca = read('ca.pem'), topic = `open-kafkajs-${name}`;
  const scram = withPassword(read('alice.password'), ca);
  switch (name) {
    case 'scram': return life(scram, topic);
    case 'mtls': return life(withCertificate(ca, read('client.pem'), read('client-key.pem')), topic);
    case 'oauth': return life(withToken(read('token'), ca), topic);
    case 'wrong-password': return produce(withPassword('wrong', ca), 'hidden');
    case 'wrong-ca': return produce(withPassword(read('alice.password'), read('stranger.pem')), 'hidden');
    case 'no-certificate': return produce(new Kafka({ ...common, brokers: [process.env.MTLS], ssl: { ca: [ca] } }), 'hidden');
    case 'unsigned': return produce(withToken(unsigned, ca), 'hidden');
    case 'forged': return produce(withToken(read('forged'), ca), 'hidden');
    case 'hidden-topic': return produce(scram, 'hidden');
    case 'hidden-group': return consume(scram, 'open-kafkajs-scram', 'hidden');
    default: throw new Error('no such case');
  }
}

async function main() {
  for (const name of process.argv.slice(2)) {
    let result = 'ok';
    try {
      await play(name);
    } catch (e) {
      result = `${e.name}: ${e.message}${e.type ? ` (${e.type})` : ''}`.replaceAll('\n', ' ');
    }
    console.log(`${name}: ${result}`);
  }
  process.exit(0);
}

main();
