"""confluent.py TOPIC ID STOP: writes and reads records until STOP exists; see ../telemetry.sh."""
import logging
import os
import sys
import time

from confluent_kafka import Consumer, Producer

topic, ident, stop = sys.argv[1:4]
logging.basicConfig(format="%(levelname)s %(message)s", level=logging.DEBUG)
common = {"bootstrap.servers": os.environ["BOOTSTRAP"], "debug": "telemetry"}
producer = Producer({**common, "client.id": ident + "-producer"}, logger=logging.getLogger())
consumer = Consumer({**common, "client.id": ident + "-consumer", "group.id": ident, "auto.offset.reset": "earliest"},
                    logger=logging.getLogger())
consumer.subscribe([topic])
end = time.monotonic() + 180
while not os.path.exists(stop) and time.monotonic() < end:
    producer.produce(topic, b"value")
    producer.poll(0)
    consumer.poll(0.05)
left = producer.flush(60)
consumer.close()
if left:
    sys.exit("%d records were not acknowledged" % left)
