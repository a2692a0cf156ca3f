"""Transactions of kafka-python; see ../txn.sh."""
import os
import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

BOOTSTRAP, PREFIX = os.environ["BOOTSTRAP"], sys.argv[1]
TOPIC, GROUP, ID = PREFIX + "-topic", PREFIX + "-group", PREFIX + "-id"
PARTITIONS = [TopicPartition(TOPIC, p) for p in (0, 1)]


def check(ok, what, got):
    if not ok:
        sys.exit("%s: %s" % (what, got))


def producer():
    p = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=ID)
    p.init_transactions()
    return p


def write(p, what):
    p.begin_transaction()
    for i in range(10):
        p.send(TOPIC, (what + str(i)).encode(), partition=i % 2)


def read(isolation):
    c = KafkaConsumer(bootstrap_servers=BOOTSTRAP, isolation_level=isolation, auto_offset_reset="earliest")
    c.assign(PARTITIONS)
    c.seek_to_beginning(*PARTITIONS)
    ends, values = c.end_offsets(PARTITIONS), []
    while any(c.position(p) < ends[p] for p in PARTITIONS):
        for records in c.poll(timeout_ms=1000).values():
            values += [r.value.decode() for r in records]
    c.close()
    return sorted(values)


admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
admin.create_topics([NewTopic(TOPIC, 2, -1)])
older = producer()
write(older, "a")
older.commit_transaction()
write(older, "b")
older.flush()
older.abort_transaction()
seen = read("read_committed")
check(len(seen) == 10 and all(v[0] == "a" for v in seen), "committed records", seen)
check(len(read("read_uncommitted")) == 20, "all records", read("read_uncommitted"))
for offset in (7, 9):
    older.begin_transaction()
    older.send_offsets_to_transaction({PARTITIONS[0]: OffsetAndMetadata(offset, "", -1)}, GROUP)
    if offset == 7:
        older.commit_transaction()
    else:
        older.abort_transaction()
offsets = KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=GROUP, enable_auto_commit=False)
check(offsets.committed(PARTITIONS[0]) == 7, "the group's offset", offsets.committed(PARTITIONS[0]))
offsets.close(autocommit=False)
write(older, "c")
older.flush()
newer = producer()
write(newer, "d")
newer.commit_transaction()
try:
    older.commit_transaction()
    refused = None
except KafkaError as e:
    refused = e
check(refused is not None, "the older instance", "was not fenced")
seen = read("read_committed")
check(len(seen) == 20 and all(v[0] in "ad" for v in seen), "committed records", seen)
