"""Simple consumers: partitions of their own choice, offsets kept under a group that
nobody joins. With confluent-kafka-python and kafka-python; see ../simple-group.sh."""
import os
import sys

import confluent_kafka as ck
import kafka
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

BOOTSTRAP, RUN, N = os.environ["BOOTSTRAP"], os.environ["RUN"], 100


def prepare(topic):
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic(topic, 2, -1)]).values():
        future.result(60)
    producer = ck.Producer({"bootstrap.servers": BOOTSTRAP})
    for i in range(N):
        producer.produce(topic, b"%d" % i, partition=i % 2)
    if producer.flush(60):
        sys.exit("%s: not everything was acknowledged" % topic)


def with_confluent(topic, group, n):
    c = ck.Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    c.assign([ck.TopicPartition(topic, 1)])
    got = []
    for _ in range(120):
        for m in c.consume(n - len(got), 0.5):
            if m.error():
                print("confluent:", m.error(), file=sys.stderr)
            else:
                got.append(int(m.value()))
        if len(got) >= n:
            break
    c.commit(offsets=[ck.TopicPartition(topic, 1, got[-1] // 2 + 1, "by hand")], asynchronous=False)
    kept = c.committed([ck.TopicPartition(topic, 0), ck.TopicPartition(topic, 1)], 60)
    c.close()
    return got, kept[0].offset, kept[1].offset


def with_kafka_python(topic, group, n):
    c = kafka.KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest")
    p = kafka.TopicPartition(topic, 1)
    c.assign([p])
    got = []
    for _ in range(120):
        for records in c.poll(500, max_records=n - len(got)).values():
            got += [int(r.value) for r in records]
        if len(got) >= n:
            break
    c.commit({p: OffsetAndMetadata(*(got[-1] // 2 + 1, "by hand", -1)[:len(OffsetAndMetadata._fields)])})
    kept = [c.committed(kafka.TopicPartition(topic, 0)), c.committed(p)]
    c.close()
    return got, -1001 if kept[0] is None else kept[0], kept[1]


for name, read in ("confluent", with_confluent), ("kafka-python", with_kafka_python):
    topic, group = "simple-%s-%s" % (RUN, name), "simple-%s-%s" % (RUN, name)
    prepare(topic)
    for begin in 0, 20, 40:
        want = [2 * i + 1 for i in range(begin, min(begin + 20, N // 2))]
        got, other, kept = read(topic, group, len(want))
        if got != want or other != -1001 or kept != begin + len(want):
            sys.exit("%s from %d: read %s, %d and %d are committed" % (name, begin, got, other, kept))
    print("%s: three consumers, each where the last one left off" % name)
