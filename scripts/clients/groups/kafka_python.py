"""A member of a group that is kafka-python's consumer; see events.go."""
import logging
import os
import signal
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
env = os.environ
running = True


def stop(*_):
    global running
    running = False


def say(*words):
    print(*words, flush=True)


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        say("A", *["%s:%d" % (p.topic, p.partition) for p in assigned])

    def on_partitions_revoked(self, revoked):
        say("L", *["%s:%d" % (p.topic, p.partition) for p in revoked])


def commit(consumer, offsets):
    if not offsets:
        return
    try:
        consumer.commit({tp: OffsetAndMetadata(*(offset, "", -1)[:len(OffsetAndMetadata._fields)]) for tp, offset in offsets.items()})
    except KafkaError as e:
        say("E commit:", repr(e))
        return
    for tp, offset in offsets.items():
        say("C", tp.topic, tp.partition, offset)


def options():
    c = {"bootstrap_servers": env["BOOTSTRAP"], "group_id": env["GROUP"], "client_id": env["MEMBER"],
         "auto_offset_reset": "earliest", "enable_auto_commit": False, "metadata_max_age_ms": 1000,
         "session_timeout_ms": int(env["SESSION_MS"]), "heartbeat_interval_ms": 500}
    if env["INSTANCE"]:
        c["group_instance_id"] = env["INSTANCE"]
    if env["ASSIGNOR"] == "cooperative-sticky":
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        c["partition_assignment_strategy"] = [CooperativeStickyAssignor]
    return c


signal.signal(signal.SIGTERM, stop)
consumer = KafkaConsumer(**options())
if env["TOPIC"].startswith("^"):
    consumer.subscribe(pattern=env["TOPIC"], listener=Listener())
else:
    consumer.subscribe([env["TOPIC"]], listener=Listener())
while running:
    try:
        # Long: kafka-python 3.0.12 never hears the end of a join that its poll
        # did not wait for (it sends no heartbeats any more, and is thrown out).
        batches = consumer.poll(timeout_ms=5000)
    except KafkaError as e:
        say("E poll:", repr(e))
        continue
    offsets = {}
    for tp, records in batches.items():
        for r in records:
            say("R", r.topic, r.partition, r.offset, r.value.decode())
        offsets[TopicPartition(tp.topic, tp.partition)] = records[-1].offset + 1
    commit(consumer, offsets)
consumer.close()
