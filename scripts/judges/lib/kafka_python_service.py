"""Stands for kafka-python's test.service, which its source distribution lacks: a broker that runs
already."""


class ExternalService:
    """A broker that the tests neither start nor stop."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        """Does nothing: the broker runs."""

    def close(self):
        """Does nothing: the broker goes on."""

    stop = dump_logs = close


class SpawnedService:
    """A broker that a test wants to start itself."""

    def __init__(self, *_args):
        raise RuntimeError("the test starts a broker of Kafka itself")
