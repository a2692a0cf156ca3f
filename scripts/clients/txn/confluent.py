"""Transactions of confluent-kafka-python (librdkafka); see ../txn.sh."""
import os
import sys

from confluent_kafka import (Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition,
                             OFFSET_BEGINNING)
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP, PREFIX = os.environ["BOOTSTRAP"], sys.argv[1]
TOPIC, GROUP, ID = PREFIX + "-topic", PREFIX + "-group", PREFIX + "-id"
PARTITIONS = [TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in (0, 1)]


def check(ok, what, got):
    if not ok:
        sys.exit("%s: %s" % (what, got))


def producer():
    p = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": ID})
    p.init_transactions(60)
    return p


def write(p, what):
    p.begin_transaction()
    for i in range(10):
        p.produce(TOPIC, what + str(i), partition=i % 2)


def read(isolation):
    c = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "unused", "enable.auto.commit": False, "isolation.level": isolation,
                  "enable.partition.eof": True})
    c.assign(PARTITIONS)
    values, ends = [], 0
    while ends < len(PARTITIONS):
        msg = c.poll(60)
        check(msg is not None, isolation, "nothing arrives")
        if msg.error():
            ends += 1
        else:
            values.append(msg.value().decode())
    c.close()
    return sorted(values)


admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
for made in admin.create_topics([NewTopic(TOPIC, 2, -1)]).values():
    made.result(60)
older = producer()
write(older, "a")
older.commit_transaction(60)
write(older, "b")
older.flush(60)
older.abort_transaction(60)
seen = read("read_committed")
check(len(seen) == 10 and all(v[0] == "a" for v in seen), "committed records", seen)
check(len(read("read_uncommitted")) == 20, "all records", read("read_uncommitted"))

member = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": GROUP})
for offset in (7, 9):
    older.begin_transaction()
    older.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], member.consumer_group_metadata(), 60)
    if offset == 7:
        older.commit_transaction(60)
    else:
        older.abort_transaction(60)
request = [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0)])]
got = admin.list_consumer_group_offsets(request, require_stable=True)[GROUP].result(60).topic_partitions[0].offset
check(got == 7, "the group's offset", got)

write(older, "c")
older.flush(60)
newer = producer()
write(newer, "d")
newer.commit_transaction(60)
try:
    older.commit_transaction(60)
    refused = None
except KafkaException as e:
    refused = e.args[0]
check(refused is not None and refused.fatal(), "the older instance", refused)
seen = read("read_committed")
check(len(seen) == 20 and all(v[0] in "ad" for v in seen), "committed records", seen)
