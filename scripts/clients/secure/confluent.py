"""Logs in with confluent-kafka-python (librdkafka) in each way: see ../secure.sh. Its settings are
the .conf files that ../secure.sh takes from docs/clients.md."""
import os
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

KEYS = os.environ["KEYS"]


def settings(name, **over):
    with open(os.path.join(KEYS, name + ".conf")) as f:
        read = dict(line.strip().split("=", 1) for line in f if line.strip() and line[0] != "#")
    over = {k.replace("_", "."): v for k, v in over.items()}
    return {**read, "log_level": 0, **over}


def with_token(token):
    return {**settings("oauth"), "oauth_cb": lambda _: (token, time.time() + 3600)}


def read(name):
    with open(os.path.join(KEYS, name)) as f:
        return f.read().strip()


def fails(conf):
    """Raises the first error that the client reports of its connections."""
    seen = []
    with_errors = {**conf, "error_cb": seen.append}
    p = Producer(with_errors)
    for _ in range(600):
        p.poll(0.1)
        for e in seen:
            if e.code() != KafkaError._ALL_BROKERS_DOWN:
                raise KafkaException(e)
    sys.exit("no error in 60 s")


def life(conf, topic):
    p = Producer({**conf, "transactional.id": topic})
    p.init_transactions(60)
    p.begin_transaction()
    for i in range(10):
        p.produce(topic, "value %d" % i)
    p.commit_transaction(60)
    consume(conf, topic, topic)


def consume(conf, topic, group):
    c = Consumer({**conf, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        c.subscribe([topic])
        for i in range(10):
            msg = c.poll(60)
            if msg is None:
                sys.exit("nothing arrives")
            if msg.error():
                raise KafkaException(msg.error())
            if msg.value().decode() != "value %d" % i:
                sys.exit("read %r" % msg.value())
        c.commit(asynchronous=False)
    finally:
        c.close()


def produce(conf, topic):
    failed = []
    p = Producer(conf)
    p.produce(topic, "value", on_delivery=lambda e, _: failed.append(e))
    p.flush(60)
    if failed[0]:
        raise KafkaException(failed[0])


def play(name):
    scram, topic = settings("scram"), "open-confluent-" + name
    if name in ("scram", "mtls"):
        life(settings(name), topic)
    elif name == "oauth":
        life(with_token(read("token")), topic)
    elif name == "wrong-password":
        fails({**scram, "sasl.password": "wrong"})
    elif name == "wrong-ca":
        fails({**scram, "ssl.ca.location": os.path.join(KEYS, "stranger.pem")})
    elif name == "no-certificate":
        fails({k: v for k, v in settings("mtls").items() if "key" not in k and "certificate" not in k})
    elif name == "unsigned":
        fails({**settings("oauth"), "enable.sasl.oauthbearer.unsecure.jwt": True,
               "sasl.oauthbearer.config": "principal=robot"})
    elif name == "forged":
        fails(with_token(read("forged")))
    elif name == "hidden-topic":
        produce(scram, "hidden")
    elif name == "hidden-group":
        consume(scram, "open-confluent-scram", "hidden")
    else:
        sys.exit("no such case")


for case in sys.argv[1:]:
    result = "ok"
    try:
        play(case)
    except KafkaException as e:
        result = str(e).replace("\n", " ")
    print("%s: %s" % (case, result), flush=True)
