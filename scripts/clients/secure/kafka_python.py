"""Logs in with kafka-python in each way: see ../secure.sh. Its settings stand in docs/clients.md."""
import logging
import os
import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

KEYS = os.environ["KEYS"]


class Told(logging.Handler):
    """Keeps the warnings: why a connection failed stands only in the client's log."""
    text = ""

    def emit(self, record):
        self.text += " " + record.getMessage()


told = Told(logging.WARNING)
logging.getLogger("kafka").addHandler(told)
logging.getLogger("kafka").propagate = False


def path(name):
    return os.path.join(KEYS, name)


def read(name):
    with open(path(name)) as f:
        return f.read().strip()


class Tokens(AbstractTokenProvider):
    def __init__(self, text):
        super().__init__()
        self.text = text

    def token(self):
        return self.text


def with_password(password, ca):
    return dict(
        bootstrap_servers=os.environ["SCRAM"],
        security_protocol="SASL_SSL",
        ssl_cafile=ca,
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="alice",
        sasl_plain_password=password,
    )


def with_certificate(ca, certificate, key):
    return dict(
        bootstrap_servers=os.environ["MTLS"],
        security_protocol="SSL",
        ssl_cafile=ca,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def with_token(text, ca):
    return dict(
        bootstrap_servers=os.environ["OAUTH"],
        security_protocol="SASL_SSL",
        ssl_cafile=ca,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(text),
    )


def life(conf, topic):
    p = KafkaProducer(transactional_id=topic, **conf)
    p.init_transactions()
    p.begin_transaction()
    for i in range(10):
        p.send(topic, ("value %d" % i).encode())
    p.commit_transaction()
    p.close()
    consume(conf, topic, topic)


def consume(conf, topic, group):
    c = KafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
                      isolation_level="read_committed", **conf)
    try:
        values = []
        while len(values) < 10:
            for records in c.poll(timeout_ms=1000).values():
                values += [r.value.decode() for r in records]
        if values != ["value %d" % i for i in range(10)]:
            sys.exit("read %s" % values)
        c.commit()
    finally:
        c.close(autocommit=False)


def produce(conf, topic):
    p = KafkaProducer(max_block_ms=3000, bootstrap_timeout_ms=2000, **conf)
    try:
        p.send(topic, b"value").get(60)
    finally:
        p.close(timeout=1)


# A token as clients make them for tests: alg none, and no signature.
UNSIGNED = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb2JvdCIsImF1ZCI6ImNocm9uaWsiLCJleHAiOjk5OTk5OTk5OTl9."


def play(name):
    ca, topic = path("ca.pem"), "open-kafka-python-" + name
    scram = with_password(read("alice.password"), ca)
    if name == "scram":
        life(scram, topic)
    elif name == "mtls":
        life(with_certificate(ca, path("client.pem"), path("client-key.pem")), topic)
    elif name == "oauth":
        life(with_token(read("token"), ca), topic)
    elif name == "wrong-password":
        produce(with_password("wrong", ca), "hidden")
    elif name == "wrong-ca":
        produce(with_password(read("alice.password"), path("stranger.pem")), "hidden")
    elif name == "no-certificate":
        produce(dict(bootstrap_servers=os.environ["MTLS"], security_protocol="SSL", ssl_cafile=ca), "hidden")
    elif name == "unsigned":
        produce(with_token(UNSIGNED, ca), "hidden")
    elif name == "forged":
        produce(with_token(read("forged"), ca), "hidden")
    elif name == "hidden-topic":
        produce(scram, "hidden")
    elif name == "hidden-group":
        consume(scram, "open-kafka-python-scram", "hidden")
    else:
        sys.exit("no such case")


for case in sys.argv[1:]:
    result, told.text = "ok", ""
    try:
        play(case)
    except (KafkaError, OSError) as e:
        result = (repr(e) + ": " + told.text).replace("\n", " ")
    print("%s: %s" % (case, result), flush=True)
