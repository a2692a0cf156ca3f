"""Writes and reads back records with confluent-kafka-python; see run.sh."""
import os
import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition, OFFSET_BEGINNING
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP, RECORDS, RUN = os.environ["BOOTSTRAP"], int(os.environ["RECORDS"]), os.environ["RUN"]
PARTITIONS = 4


def record(i):
    """The i-th record: key, value, headers."""
    return b"key-%d" % (i % 997), b"value number %d of %d" % (i, RECORDS), [("i", b"%d" % i), ("empty", b"")]


def create(topic):
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, -1)]).values():
        future.result(30)


def produce(topic, codec):
    """Returns which record is at which partition and offset, as acknowledged."""
    at, errors = {}, []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "compression.type": codec, "enable.idempotence": True})

    def done(i):
        def callback(err, msg):
            if err is not None:
                errors.append("record %d: %s" % (i, err))
            else:
                at[msg.partition(), msg.offset()] = i
        return callback

    for i in range(RECORDS):
        key, value, headers = record(i)
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, on_delivery=done(i))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(60) != 0:
        errors.append("not everything was acknowledged within 60 s")
    if errors or len(at) != RECORDS:
        sys.exit("%s: %d of %d acknowledged at places of their own; %s" % (topic, len(at), RECORDS, errors[:3]))
    return at


def consume(topic, at):
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "unused", "enable.auto.commit": False,
                         "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    nextoff, seen, last, deadline = [0] * PARTITIONS, 0, {}, time.monotonic() + 60
    while seen < RECORDS:
        if time.monotonic() > deadline:
            sys.exit("%s: read %d of %d within 60 s" % (topic, seen, RECORDS))
        for msg in consumer.consume(10000, 1.0):
            if msg.error():
                if msg.error().code() in (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT):
                    continue
                sys.exit("%s: %s" % (topic, msg.error()))
            p, off = msg.partition(), msg.offset()
            if off != nextoff[p]:
                sys.exit("%s: partition %d goes from %d to %d" % (topic, p, nextoff[p] - 1, off))
            nextoff[p] += 1
            i = at.get((p, off))
            if i is None or (msg.key(), msg.value(), msg.headers()) != record(i):
                sys.exit("%s: at %d:%d is %r, not record %s" % (topic, p, off, msg.value(), i))
            if last.get(msg.key(), -1) >= i:
                sys.exit("%s: key %r: record %d after %d" % (topic, msg.key(), i, last[msg.key()]))
            last[msg.key()] = i
            seen += 1
    consumer.close()


for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    topic = "confluent-%s-%s" % (RUN, codec)
    create(topic)
    consume(topic, produce(topic, codec))
