"""Members of a share group of confluent-kafka-python (librdkafka); see ../share.sh, which says what
is checked."""
import os
import sys

from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer

TOPIC, GROUP, WHAT = sys.argv[1:4]
RELEASED = {}  # the delivery count of an answered release
FINISHED = {}  # acknowledged or rejected: True if that was answered


def connection():
    if not os.environ.get("SETTINGS"):
        return {"bootstrap.servers": os.environ["BOOTSTRAP"]}
    with open(os.environ["SETTINGS"]) as f:
        return dict(line.strip().split("=", 1) for line in f if line.strip() and line[0] != "#")


def member():
    c = ShareConsumer({**connection(), "group.id": GROUP, "share.acknowledgement.mode": "explicit", "max.poll.records": 20,
                       "log_level": 0})
    c.subscribe([TOPIC])
    return c


def acknowledgement(msg):
    value = msg.value().decode()
    if value.endswith("7"):
        return AcknowledgeType.REJECT
    if value.endswith("3") and msg.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def take(c):
    """Polls once, and acknowledges what it gets."""
    records = [msg for msg in c.poll(0.2) if not msg.error()]
    for msg in records:
        value = msg.value().decode()
        if FINISHED.get(value):
            sys.exit("%s is delivered again after its acknowledgement was answered" % value)
        if RELEASED.get(value, 0) >= msg.delivery_count():
            sys.exit("%s has delivery count %d after an answered release with %d" % (value, msg.delivery_count(), RELEASED[value]))
        c.acknowledge(msg, acknowledgement(msg))
    if not records:
        return []
    failed = {of.partition for of, error in c.commit_sync(60).items() if error}
    for msg in records:
        answered = msg.partition() not in failed
        value = msg.value().decode()
        if acknowledgement(msg) != AcknowledgeType.RELEASE:
            FINISHED[value] = answered
        elif answered:
            RELEASED[value] = msg.delivery_count()
    return [msg.value().decode() for msg in records]


def write(values):
    failed = []
    p = Producer({**connection(), "batch.num.messages": 10, "log_level": 0})
    for i, value in enumerate(values):
        p.produce(TOPIC, value, partition=i % 2, on_delivery=lambda error, _: failed.append(error) if error else None)
    if p.flush(120) or failed:
        sys.exit("produce: %s" % failed)


def play(n):
    write("value %d" % i for i in range(n))
    members, shown = [member(), member()], 0
    while len(FINISHED) < n:
        for c in members:
            take(c)
        while shown < len(FINISHED) // 100:
            shown += 1
            print("finished", shown * 100, flush=True)
    for c in members:
        c.close()
    write(["end 0", "end 1"])
    last, ends = member(), 0
    while ends < 2:
        ends += sum(value.startswith("end") for value in take(last))
    last.close()
    if not RELEASED:
        sys.exit("no release was answered")
    print("%d records, %d of them released" % (n, len(RELEASED)))


def says():
    """Returns the error that a member gets."""
    c = ShareConsumer({**connection(), "group.id": GROUP, "log_level": 0})
    c.subscribe([TOPIC])
    for _ in range(120):
        try:
            for msg in c.poll(0.5):
                if msg.error():
                    return msg.error()
        except KafkaException as e:
            return e
    return "no error"


if WHAT == "says":
    print(says())
else:
    play(int(WHAT))
