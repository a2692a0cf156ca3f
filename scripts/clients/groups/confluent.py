"""A member of a group that is librdkafka's consumer; see events.go."""
import os
import signal

from confluent_kafka import Consumer, KafkaException, TopicPartition

env = os.environ
running = True
pending = {}  # (topic, partition): what to commit next


def stop(*_):
    global running
    running = False


def say(*words):
    print(*words, flush=True)


def places(partitions):
    return ["%s:%d" % (p.topic, p.partition) for p in partitions]


def commit(consumer, keys):
    offsets = [TopicPartition(t, p, pending.pop((t, p))) for t, p in keys]
    if not offsets:
        return
    try:
        for done in consumer.commit(offsets=offsets, asynchronous=False):
            if done.error:
                say("E commit", done)
            else:
                say("C", done.topic, done.partition, done.offset)
    except KafkaException as e:
        say("E commit:", e)


def assigned(consumer, partitions):
    say("A", *places(partitions))


def revoked(consumer, partitions):
    commit(consumer, [k for k in [(p.topic, p.partition) for p in partitions] if k in pending])
    say("L", *places(partitions))


def lost(consumer, partitions):
    for p in partitions:
        pending.pop((p.topic, p.partition), None)
    say("L", *places(partitions))


def config():
    c = {"bootstrap.servers": env["BOOTSTRAP"], "group.id": env["GROUP"], "client.id": env["MEMBER"],
         "auto.offset.reset": "earliest", "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 1000,
         "group.protocol": env["PROTOCOL"], "reconnect.backoff.max.ms": 1000}
    if env["INSTANCE"]:
        c["group.instance.id"] = env["INSTANCE"]
    if env["PROTOCOL"] == "consumer":
        if env["ASSIGNOR"]:
            c["group.remote.assignor"] = env["ASSIGNOR"]
    else:
        c.update({"session.timeout.ms": env["SESSION_MS"], "heartbeat.interval.ms": 500})
        if env["ASSIGNOR"]:
            c["partition.assignment.strategy"] = env["ASSIGNOR"]
    return c


signal.signal(signal.SIGTERM, stop)
consumer = Consumer(config())
consumer.subscribe([env["TOPIC"]], on_assign=assigned, on_revoke=revoked, on_lost=lost)
while running:
    # The first may take its time; the others are those that are there already.
    for i in range(500):
        msg = consumer.poll(0.5 if i == 0 else 0)
        if msg is None:
            break
        if msg.error():
            say("E", msg.error())
        else:
            say("R", msg.topic(), msg.partition(), msg.offset(), msg.value().decode())
            pending[msg.topic(), msg.partition()] = msg.offset() + 1
    commit(consumer, list(pending))
consumer.close()
